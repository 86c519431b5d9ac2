"""BOINC's server-side runtime estimation as pure functions over small values.

The terms are BOINC's: a *host* runs *app versions* of an *app*; a job's size is an estimated number
of floating point operations (*fpops*), a speed is *flops*. ``farm.forecasts.runtime.boinc`` maps
them to a build farm.

averages       running averages: exact mean first, exponential afterwards, high outliers cut
records        what is remembered per (host, app version), per app version and per app; quotas,
               streaks and reliable hosts
claims         what a validated result claims and teaches; pfc_scale of versions among themselves
ladder         which speed is used, which version is chosen; hosts with their own versions
durations      from speed to wall-clock time; estimates of running jobs; kill limits; may a job be
               sent to a host with this queue, by its deadline
"""
