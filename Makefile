# Each target makes .venv and installs what it needs by itself.
PYTHON ?= python3
VENV ?= .venv
# The CPU-friendly release that this project is tested with; the library itself accepts a range.
TORCH ?= torch==2.13.0
# make TORCH_INDEX=https://download.pytorch.org/whl/cpu takes PyTorch's CPU build, which spares gigabytes of CUDA.
TORCH_INDEX ?=
INSTALL_TORCH = -m pip install -qq $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) "$(TORCH)"
BIN := $(VENV)/bin
EXTRAS := dev,docs,pybullet,mujoco,sb3,rsl-rl,export,skrl,viability,view,video,spot-sim,sysid,study,ray,slurm,hub,wandb
RSL_RL_VERSIONS ?= 5.2.0 5.3.0 5.4.2 5.5.1
STAMP := $(VENV)/.installed
# RLlib pins an older Gymnasium, so it has an environment of its own.
RLLIB_VENV ?= .venv-rllib
RLLIB_STAMP := $(RLLIB_VENV)/.installed
RLLIB_TESTS := tests/trainers/test_rllib.py tests/core/test_curriculum.py tests/core/test_counting.py tests/core/test_wrappers.py
# Isaac Lab has an environment of its own. ISAAC=small: CPU torch, 3 GB, NVIDIA's pins overridden. ISAAC=full: as its makers
# support it (8 GB, Python 3.12). ISAAC_PHYSX= leaves PhysX out, whose packages carry an NVIDIA licence.
ISAAC ?= small
ISAAC_VENV ?= .venv-isaac
ISAAC_PYTHON ?= $(if $(filter full,$(ISAAC)),python3.12,python3.11)
ISAAC_PHYSX ?= ovphysx==0.6.4.72118723 ovstage==0.2.1.385922
ISAAC_BIN := $(ISAAC_VENV)/bin
ISAAC_STAMP := $(ISAAC_VENV)/.installed-$(ISAAC)
ISAAC_PACKAGES := "newton[sim]==1.6.1" warp-lang==1.17.0 gymnasium numpy prettytable lazy_loader trimesh usd-exchange==3.0.1 \
	newton-usd-schemas hydra-core rsl-rl-lib==5.5.1 scipy tensorboard psutil filelock einops packaging botocore requests \
	omniverseclient==2.74.0 rich matplotlib h5py
ISAAC_TESTS := tests/backends/test_isaaclab_fakes.py tests/backends/test_host_reads.py tests/backends/test_isaaclab_events.py \
	tests/backends/test_isaaclab_motion.py tests/backends/test_isaaclab_spot.py tests/trainers/test_isaaclab_training.py \
	tests/backends/test_isaaclab_friction.py tests/trainers/test_isaaclab_commands.py tests/trainers/test_tensor_ranks.py

# mjlab pins an older MuJoCo and RSL-RL 5.4.2, which asks for torchvision and with it for CUDA, and imports neither.
MJLAB_VENV ?= .venv-mjlab
MJLAB_STAMP := $(MJLAB_VENV)/.installed
MJLAB_PACKAGES := prettytable tqdm torchrunx "warp-lang>=1.14" "mujoco-warp~=3.11.0" "mujoco~=3.11.0" trimesh scipy viser \
	mjviser mediapy numpy imageio imageio-ffmpeg tensordict tensorboard onnx onnxscript onnxruntime wandb GitPython \
	gymnasium rich matplotlib pillow
MJLAB_TESTS := tests/backends/test_mjlab.py tests/backends/test_mjlab_spot.py tests/trainers/test_mjlab_commands.py \
	tests/trainers/test_tensor_ranks.py

export MUJOCO_GL ?= egl
export SDL_VIDEODRIVER ?= dummy

.PHONY: demo demo-cartpole test test-fast test-busy fuzz test-rsl-rl test-rllib test-isaac test-mjlab lint bench docs dist clean
.DEFAULT_GOAL := test

$(STAMP): setup.cfg pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq --upgrade pip
	@command -v nvidia-smi > /dev/null || [ -n "$(TORCH_INDEX)" ] || echo "No GPU seen. If pip fetches CUDA now, stop it \
	and see docs/start.md for PyTorch's CPU build."
	$(BIN)/python $(INSTALL_TORCH)
	$(BIN)/python -m pip install -qq --editable ".[$(EXTRAS)]"
	touch $@

demo: $(STAMP)  ## a planar Spot's handstand with the curriculum and without it, side by side: picture and film
	$(BIN)/adc demo

demo-cartpole: $(STAMP)  ## train a cart-pole under the curriculum, evaluate it at the target gains, plot and film it
	$(BIN)/adc train cartpole --out runs/demo-cartpole --overwrite
	$(BIN)/adc play runs/demo-cartpole --out runs/demo-cartpole/policy.gif --seconds 5

test: $(STAMP)  ## all tests
	$(BIN)/python -m pytest -n auto

test-fast: $(STAMP)  ## without the slow ones
	$(BIN)/python -m pytest -n auto -m "not slow"

test-busy: $(STAMP)  ## all tests three times in a row, with other work on every core
	$(BIN)/python tests/busy.py --runs 3 -n auto -q

fuzz: $(STAMP)  ## 20,000 mutants of every file that the library reads; see tests/fuzz/README.md
	$(BIN)/python -m tests.fuzz --mutants 20000 --jobs 2

test-rsl-rl: $(STAMP)  ## the RSL-RL adapter against every supported release
	set -e; for version in $(RSL_RL_VERSIONS); do \
		$(BIN)/python -m pip install -qq --no-deps --target $(VENV)/rsl-rl/$$version rsl-rl-lib==$$version; \
		echo "RSL-RL $$version"; \
		PYTHONPATH=$(VENV)/rsl-rl/$$version $(BIN)/python -m pytest -q tests/trainers/test_rsl_rl.py; \
	done

$(RLLIB_STAMP): setup.cfg pyproject.toml
	$(PYTHON) -m venv $(RLLIB_VENV)
	$(RLLIB_VENV)/bin/python -m pip install -qq --upgrade pip
	$(RLLIB_VENV)/bin/python $(INSTALL_TORCH)
	$(RLLIB_VENV)/bin/python -m pip install -qq --editable ".[dev,pybullet,mujoco,sb3,rllib]"
	touch $@

test-rllib: $(RLLIB_STAMP)  ## the RLlib adapter, and the core under RLlib's Gymnasium, in .venv-rllib
	$(RLLIB_VENV)/bin/python -m pytest $(RLLIB_TESTS)

$(ISAAC_STAMP):
	$(ISAAC_PYTHON) -m venv $(ISAAC_VENV)
	$(ISAAC_BIN)/python -m pip install -qq --upgrade pip
ifeq ($(ISAAC),full)
	$(ISAAC_BIN)/python -m pip install -qq isaaclab==3.0.0 rsl-rl-lib==5.5.1
else
	$(ISAAC_BIN)/python $(INSTALL_TORCH)
	$(ISAAC_BIN)/python -m pip install -qq --no-deps --ignore-requires-python isaaclab==3.0.0
	$(ISAAC_BIN)/python -m pip install -qq $(ISAAC_PACKAGES)
endif
	$(ISAAC_BIN)/python -m pip install -qq pytest pytest-timeout hypothesis array-api-compat tyro stable-baselines3 onnx onnxruntime onnxscript $(ISAAC_PHYSX)
	$(ISAAC_BIN)/python -m pip install -qq --no-deps --editable .
	touch $@

test-isaac: $(ISAAC_STAMP)  ## Isaac Lab 3 itself, on the CPU; the first run compiles kernels for some minutes
	$(ISAAC_BIN)/python -m pytest -W ignore $(ISAAC_TESTS)

$(MJLAB_STAMP): setup.cfg
	$(PYTHON) -m venv $(MJLAB_VENV)
	$(MJLAB_VENV)/bin/python -m pip install -qq --upgrade pip
	$(MJLAB_VENV)/bin/python -m pip install -qq "$(TORCH)"
	$(MJLAB_VENV)/bin/python -m pip install -qq --no-deps mjlab==1.6.0 rsl-rl-lib==5.4.2
	$(MJLAB_VENV)/bin/python -m pip install -qq "$(TORCH)" $(MJLAB_PACKAGES) pytest pytest-timeout hypothesis array-api-compat tyro
	$(MJLAB_VENV)/bin/python -m pip install -qq --no-deps --editable .
	touch $@

test-mjlab: $(MJLAB_STAMP)  ## mjlab itself, on the CPU; the first run compiles kernels for some minutes
	$(MJLAB_VENV)/bin/python -m pytest -W ignore $(MJLAB_TESTS)

lint: $(STAMP)  ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)  ## wrapped against bare, in one run
	$(BIN)/python benchmarks/overhead.py --write

docs: $(STAMP)  ## the site, in build/site; a broken link or an undocumented page stops it
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict  # with --quiet it would not be strict
	@echo "build/site/index.html; with its search: python3 -m http.server --directory build/site"

dist: $(STAMP)  ## wheel and sdist, in dist
	$(BIN)/python -m build --outdir dist

clean:
	rm -rf $(VENV) $(RLLIB_VENV) $(ISAAC_VENV) $(MJLAB_VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
