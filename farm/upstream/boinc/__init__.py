"""BOINC's server-side runtime estimation as pure functions over small values.

The terms are BOINC's: a *host* runs *app versions* of an *app*; a job's size is an estimated number
of floating point operations (*fpops*), a speed is *flops*. ``farm.forecasts.runtime.boinc`` maps
them to a build farm.

records        what is remembered per (host, app version), per app version and per app, and the
               running averages in it; quotas, streaks and reliable hosts
claims         what a validated result claims and teaches; pfc_scale of versions among themselves
estimates      the estimate, top to bottom: which history is used, the speed, the time; hosts with
               their own versions
durations      what follows from an estimate: the rest of running jobs; kill limits; may a job be
               sent to a host with this queue, by its deadline
"""
