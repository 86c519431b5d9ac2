#!/bin/sh
# Starts a service of the farm. FARM_REDIS_URL is used as it is; absent, it is put together from
# FARM_REDIS_HOST, FARM_REDIS_PORT and FARM_REDIS_PASSWORD (or the file FARM_REDIS_PASSWORD_FILE).
set -eu
if [ -z "${FARM_REDIS_URL:-}" ] && [ -n "${FARM_REDIS_HOST:-}" ]; then
    FARM_REDIS_URL=$(python3 -c '
import os, pathlib, urllib.parse
env = os.environ
file = env.get("FARM_REDIS_PASSWORD_FILE")
password = pathlib.Path(file).read_text().strip() if file else env.get("FARM_REDIS_PASSWORD", "")
user = f":{urllib.parse.quote(password, safe=str())}@" if password else ""
host, port = env["FARM_REDIS_HOST"], env.get("FARM_REDIS_PORT") or "6379"
print(f"redis://{user}{host}:{port}/0")')
    export FARM_REDIS_URL
fi
exec "$@"
