#!/bin/sh
# Starts a service of the farm. FARM_REDIS_URL is used as it is; absent, it is put together from
# FARM_REDIS_HOST, FARM_REDIS_PORT, FARM_REDIS_USER and FARM_REDIS_PASSWORD (or the file
# FARM_REDIS_PASSWORD_FILE). FARM_BUILDER_REDIS_URL likewise, if there is a FARM_BUILDER_REDIS_USER.
set -eu
redis_url() {  # redis_url USER PASSWORD FILE
    python3 -c '
import os, pathlib, sys, urllib.parse
user, password, file = sys.argv[1:]
password = pathlib.Path(file).read_text().strip() if file else password
user, password = (urllib.parse.quote(word, safe="") for word in (user, password))
before = f"{user}:{password}@" if password else ""
host, port = os.environ["FARM_REDIS_HOST"], os.environ.get("FARM_REDIS_PORT") or "6379"
print(f"redis://{before}{host}:{port}/0")' "$@"
}
if [ -n "${FARM_REDIS_HOST:-}" ]; then
    if [ -z "${FARM_REDIS_URL:-}" ]; then
        FARM_REDIS_URL=$(redis_url "${FARM_REDIS_USER:-}" "${FARM_REDIS_PASSWORD:-}" "${FARM_REDIS_PASSWORD_FILE:-}")
        export FARM_REDIS_URL
    fi
    if [ -n "${FARM_BUILDER_REDIS_USER:-}" ] && [ -z "${FARM_BUILDER_REDIS_URL:-}" ]; then
        FARM_BUILDER_REDIS_URL=$(redis_url "$FARM_BUILDER_REDIS_USER" "" "$FARM_BUILDER_REDIS_PASSWORD_FILE")
        export FARM_BUILDER_REDIS_URL
    fi
fi
exec "$@"
