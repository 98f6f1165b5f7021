# The demo on a CPU: two planar Spots, trained with the curriculum and without it, evaluated, drawn and filmed.
#   docker build -t adc . && docker run --rm -v "$PWD/runs:/app/runs" adc
# PyBullet has wheels for Python up to 3.11.
FROM python:3.11-slim-bookworm

ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 MUJOCO_GL=egl SDL_VIDEODRIVER=dummy

SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libegl1 libgl1 libglib2.0-0 \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /app
RUN pip install torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu
COPY setup.cfg pyproject.toml README.md LICENSE ./
COPY adc_wrappers adc_wrappers
COPY backends backends
COPY envs envs
# hadolint ignore=DL3013
RUN pip install ".[sb3,rsl-rl,study,pybullet,mujoco,export]"
COPY examples examples

RUN useradd --create-home adc && mkdir runs && chown adc runs
# hadolint ignore=DL3066
USER adc
VOLUME /app/runs
CMD ["adc", "demo"]
