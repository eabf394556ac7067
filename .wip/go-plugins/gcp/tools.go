//go:build tools

package tools

import _ "github.com/vmware-tanzu/velero-plugin-for-gcp/velero-plugin-for-gcp"
