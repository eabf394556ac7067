// Only for the go tool; versions are pinned by the *.mod files beside it.
module lifeboat/testbed/kubectl

go 1.24.0
