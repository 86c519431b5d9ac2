#!/bin/sh
# Starts a service of the farm. FARM_REDIS_URL is used as it is; absent, it is assembled from
# FARM_REDIS_HOST, FARM_REDIS_PORT and FARM_REDIS_USER, and FARM_BUILDER_REDIS_URL likewise, if there
# is a FARM_BUILDER_REDIS_USER. Passwords the services read themselves (farm/live/settings.py).
set -eu
if [ -n "${FARM_REDIS_HOST:-}" ]; then
    place=$FARM_REDIS_HOST:${FARM_REDIS_PORT:-6379}/0
    export FARM_REDIS_URL="${FARM_REDIS_URL:-redis://${FARM_REDIS_USER:+$FARM_REDIS_USER@}$place}"
    if [ -n "${FARM_BUILDER_REDIS_USER:-}" ]; then
        export FARM_BUILDER_REDIS_URL="${FARM_BUILDER_REDIS_URL:-redis://$FARM_BUILDER_REDIS_USER@$place}"
    fi
fi
exec "$@"
