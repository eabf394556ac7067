# What a developer or CI runs. Anything with logic is in xtask.
.PHONY: help demo check book test test-e2e test-node test-long flaky bench bench-large bench-repo bench-movers fuzz image image-check deploy fmt

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/lifeboat
# One target folder for every work tree and CI.
export CARGO_TARGET_DIR ?= $(CACHE)/target

help: ## this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*##/\t/' | expand -t 12

demo: ## an application in a sandbox: backed up, lost, restored, compared
	cargo run --bin lifeboat -- demo

check: ## formatting, lints, dependency rules, crate edges, spelling, the book
	cargo xtask check

book: ## the pages of docs/ as a book; prints where it lies
	cargo xtask book

test: ## all tests, on a real control plane that it builds once and starts
	cargo xtask test

test-e2e: ## the tests of the whole program, on a real control plane; NAMES=restore:: for some
	cargo xtask test-e2e $(NAMES)

test-node: ## the tests with containers and volumes, on a real node, as root on Linux; NAMES=hooks for some
	cargo xtask test-node $(NAMES)

test-long: ## plugins that people use; older versions of kopia and kubectl; a dashboard on a backup; commands and servers killed at 1,000 random requests; a soak of servers; volumes on a node whose movers are killed (as root); about two hours; LIFEBOAT_SEED=N, LIFEBOAT_KILLS=M and LIFEBOAT_BACKUPS=M for a part
	cargo xtask test-long

flaky: ## the tests of the whole program ROUNDS times (5) while half the cores are busy, and which failed in which rounds; NAMES=backup:: for some
	cargo xtask flaky $(or $(ROUNDS),5) $(NAMES)

fuzz: ## feed the decoders of archives, indexes and metadata with mutated bytes, a minute each (nightly toolchain)
	cargo xtask fuzz

bench: ## speed and memory beside a plain client's, about a quarter of an hour after the builds; ROWS="backup-10k restore" for some
	cargo xtask bench $(ROWS)

bench-large: ## the same with 300,000 objects, about half an hour and 6 GB of memory; ROWS="browse diff" for some
	cargo xtask bench-large $(ROWS)

bench-repo: ## speed and memory of repositories beside kopia's, an hour and 25 GB below TMPDIR; ROWS="snapshot-file --small" for some
	cargo xtask bench-repo $(ROWS)

bench-movers: ## speed and memory of the pods that move volumes beside Velero's, on a node, as root; ROWS="files --scale 10" for some
	cargo xtask bench-movers $(ROWS)

image: ## the container image for amd64 and arm64 as one file, without a container engine; ARGS="--architecture arm64" for one
	cargo xtask image $(ARGS)

image-check: ## the image made twice, compared, looked into and run, in an hour or more, and as root where qemu is missing; ARGS="--profile dev" to try it
	cargo xtask image-check $(ARGS)

deploy: ## what of deploy/ is made of the objects of `install`: the base of kustomize, definitions and smaller rights of the chart
	cargo xtask deploy

fmt: ## format everything
	cargo fmt --all
