# One image for the worker, the API and the dashboard; the exporter runs on the GPU nodes themselves.
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY . .
# The packages that build the wheel come by hash like all others, and stay in this stage.
RUN python -m venv /build \
    && /build/bin/pip install --no-cache-dir --require-hashes -r requirements.txt \
    && /build/bin/python -m build --wheel --no-isolation --outdir /dist
RUN python -m venv /opt/gpu-minutes \
    && python tools/runtime_requirements.py dashboard api > /dist/requirements.txt \
    && /opt/gpu-minutes/bin/pip install --no-cache-dir --require-hashes -r /dist/requirements.txt \
    && /opt/gpu-minutes/bin/pip install --no-cache-dir --no-index --no-deps /dist/*.whl

FROM python:3.11-slim-bookworm
COPY --from=build /opt/gpu-minutes /opt/gpu-minutes
RUN useradd --system --uid 10001 --user-group --home-dir /var/lib/gpu-minutes --create-home gpu-minutes
ENV PATH=/opt/gpu-minutes/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    GPU_MINUTES_HOME=/var/lib/gpu-minutes
USER gpu-minutes
ENTRYPOINT ["gpu-minutes"]
CMD ["--help"]
