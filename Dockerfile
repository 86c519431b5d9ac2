# One image for every service of the farm: scheduler, provisioner, builders, load.
# Kept simple: it builds with the legacy builder and with BuildKit alike.
#   docker build -t build-farm:latest .
# Behind an index or a proxy of your own: --build-arg PIP_INDEX_URL=… --build-arg PIP_CERT=…

# as a tag, or with a digest, by which it is always the same: docs/how-to/containers.md#an-image-to-publish
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_CERT
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
RUN python3 -m venv /opt/farm
# dependencies rarely change: a separate layer
COPY deploy/requirements.txt ./
RUN /opt/farm/bin/pip install --require-hashes --only-binary :all: -r requirements.txt
COPY pyproject.toml setup.py build_backend.py README.md LICENSE ./
COPY farm ./farm
COPY workers ./workers
COPY provisioner ./provisioner
COPY farm_twin ./farm_twin
COPY farm_studies ./farm_studies
COPY farm_chaos ./farm_chaos
COPY examples ./examples
RUN /opt/farm/bin/pip install --no-deps --no-build-isolation . \
 && /opt/farm/bin/pip uninstall --yes --quiet pip setuptools \
 && find /opt/farm/lib -type d -name tests -path '*numpy*' -prune -exec rm -rf {} +
# files of the services, in the required form: modes and line ends of the checkout do not matter
COPY examples /app/examples
COPY deploy/entrypoint.sh /app/entrypoint.sh
COPY deploy/bin /app/bin
COPY deploy/prometheus /app/services/prometheus
COPY deploy/docker-proxy /app/services/docker-proxy
COPY grafana/provisioning /app/services/grafana/provisioning
COPY grafana/dashboards /app/services/grafana/dashboards
RUN find /app -type f -exec sed -i 's/\r$//' {} + \
 && chmod -R u=rwX,go=rX /app /opt/farm \
 && chmod a+x /app/entrypoint.sh /app/bin/*

FROM ${BASE}
ARG BASE
LABEL org.opencontainers.image.title="Build farm emulator" \
      org.opencontainers.image.description="Scheduler, provisioner and emulated builders of a build farm" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="${BASE}"
RUN groupadd --gid 10001 farm \
 && useradd --uid 10001 --gid farm --create-home --home-dir /home/farm farm
COPY --from=build /opt/farm /opt/farm
COPY --from=build /app /app
# where volumes are mounted: those that the service setup fills, and the event log
RUN mkdir /services /scenarios /secrets /tls /log \
 && mkdir -p /secrets-of/redis /secrets-of/scheduler /secrets-of/provisioner /secrets-of/submitter /secrets-of/builder \
    /secrets-of/alertmanager \
 && chown -R farm:farm /services /scenarios /secrets /secrets-of /tls /log
ENV PATH=/app/bin:/opt/farm/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /app
USER 10001:10001
ENTRYPOINT ["/app/entrypoint.sh"]
CMD ["farm", "--help"]
