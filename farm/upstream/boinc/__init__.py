"""BOINC's server-side runtime estimation as pure functions over small values.

The words are BOINC's own here: a *host* runs *app versions* of an *app*; a job's size is an
estimated number of floating point operations (*fpops*), a speed is *flops*. What stands for what
in a build farm is said in ``farm.forecasts.runtime.boinc``.

averages       running averages: exact mean first, exponential afterwards, high outliers cut
records        what is remembered per (host, app version), per app version and per app
claims         what a validated result claims and what it teaches the records
replicas       one figure from several results of the same job
scales         normalisation of app versions among themselves (pfc_scale)
flops          which speed is believed, and which version is chosen
anonymous      hosts that bring their own versions and do not change their own figures
durations      from speed to wall-clock time; estimates of running jobs; kill limits
deadlines      may a job be sent to a host with this queue
reliability    quotas, streaks and who is trusted
"""
