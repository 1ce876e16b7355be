# lbgen without engines, to check and render topologies:
#   docker build -t lbgen .
#   docker run --rm -v "$PWD:/work:ro" lbgen check shop.yaml
# BASE is any image with python3 (3.11 or newer) and pip.
ARG BASE=python:3.13-slim
FROM ${BASE}
COPY pyproject.toml README.md LICENSE /src/
COPY lbgen /src/lbgen
COPY templates /src/templates
COPY profiles /src/profiles
COPY examples /src/examples
RUN python3 -m pip install --no-cache-dir /src && rm -rf /src
WORKDIR /work
USER 65534:65534
ENV HOME=/tmp PYTHONDONTWRITEBYTECODE=1
ENTRYPOINT ["lbgen"]
CMD ["--help"]
