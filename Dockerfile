# One image, every command: `brokerage serve` by default, `brokerage index …` for the indexer.
# For reproducible builds, pin the base image: `--build-arg BASE=python:3.13-slim@sha256:…`; get the digest with
# `docker buildx imagetools inspect python:3.13-slim`. Pass secrets at run time with NAME_FILE, never as build arguments.
# For a package index of your own, `--secret id=pip,src=pip.conf` and `--secret id=ca,src=ca.pem`: no layer keeps them.
ARG BASE=python:3.13-slim
FROM ${BASE} AS build
WORKDIR /build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv --without-pip /opt/brokerage
COPY locks/production.txt locks/
RUN --mount=type=secret,id=pip,target=/etc/pip.conf --mount=type=secret,id=ca,target=/run/ca.pem \
    pip --python /opt/brokerage/bin/python install --require-hashes -r locks/production.txt
COPY pyproject.toml PACKAGE.md LICENSE CHANGELOG.md ./
COPY docs docs
COPY consumer consumer
COPY brokerage brokerage
COPY cluster cluster
COPY embedded embedded
COPY indexer indexer
COPY mappings mappings
COPY sample sample
COPY service service
RUN pip --python /opt/brokerage/bin/python install --no-deps --no-build-isolation ./consumer .
# Debug information is a third of what wheels install. Only this stage needs `strip`; a base that has it needs no Debian mirror.
# hadolint ignore=DL3008
RUN { command -v strip || { apt-get update -qq && apt-get install -y -qq --no-install-recommends binutils; }; } > /dev/null && \
    find /opt/brokerage -name '*.so*' -type f -exec strip --strip-unneeded {} +

FROM ${BASE}
LABEL org.opencontainers.image.title="brokerage" \
      org.opencontainers.image.description="A read-only JSON API for real-estate brokerage data over Elasticsearch" \
      org.opencontainers.image.licenses="Apache-2.0"
# Nothing is installed at run time: the base image's pip goes, too.
RUN python -c "import ensurepip, glob, pip, shutil; \
    [shutil.rmtree(path) for path in (*ensurepip.__path__, *glob.glob(pip.__path__[0] + '*'))]" && \
    rm -rf "$(command -v pip)"* /usr/share/python-wheels
COPY --from=build /opt/brokerage /opt/brokerage
ENV PATH=/opt/brokerage/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 BROKERAGE_HOST=0.0.0.0
# Numeric, so that an orchestrator can verify that it is not root.
USER 65532:65532
WORKDIR /tmp
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/livez', timeout=2)"]
ENTRYPOINT ["brokerage"]
CMD ["serve"]
