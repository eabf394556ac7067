module lifeboat/testbed/kubectl

go 1.24.0
