//go:build tools

package tools

import _ "github.com/kopia/kopia"
