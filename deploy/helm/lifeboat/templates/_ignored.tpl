{{/*
The values that change nothing, one line each: `path: why`. files/keys.yaml says which keys there are; a few values count only sometimes.
*/}}
{{- define "lifeboat.ignored" -}}
{{- $lines := include "lifeboat.unread" (dict "path" "" "value" .Values "keys" (.Files.Get "files/keys.yaml" | fromYaml)) | splitList "\n" -}}
{{- if include "lifeboat.isVeleroImage" . -}}
{{- $lines = append $lines (printf "image.repository, image.tag, image.digest: %s is the server of Velero; that of the chart is taken" .Values.image.repository) -}}
{{- end -}}
{{- range $key := list "livenessProbe" "readinessProbe" -}}
{{- if eq "/metrics" (dig "httpGet" "path" "" (get $.Values $key | default dict)) -}}
{{- $lines = append $lines (printf "%s: metrics are served by a server that hangs, too; it is asked at a path of its own" $key) -}}
{{- end -}}
{{- end -}}
{{- with .Values.configuration.namespace -}}
{{- if ne . $.Release.Namespace -}}
{{- $lines = append $lines "configuration.namespace: the server runs in the namespace of the release" -}}
{{- end -}}
{{- end -}}
{{- $bound := and .Values.rbac.create .Values.rbac.clusterAdministrator (not .Values.leastPrivilege) -}}
{{- if and (not $bound) (ne .Values.rbac.clusterAdministratorName "cluster-admin") -}}
{{- $lines = append $lines "rbac.clusterAdministratorName: no account gets the role of an administrator" -}}
{{- end -}}
{{- if and .Values.leastPrivilege (not .Values.rbac.create) -}}
{{- $lines = append $lines "leastPrivilege: without rbac.create no rights are given" -}}
{{- end -}}
{{- with .Values.credentials -}}
{{- range $key := list "name" "secretContents" -}}
{{- if and (get $.Values.credentials $key) $.Values.credentials.existingSecret -}}
{{- $lines = append $lines (printf "credentials.%s: the Secret of existingSecret is taken" $key) -}}
{{- end -}}
{{- end -}}
{{- if and .secretContents (not .existingSecret) (not .useSecret) -}}
{{- $lines = append $lines "credentials.secretContents: without useSecret no Secret is made" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.secretAnnotations (not (include (print $.Template.BasePath "/secret.yaml") . | trim)) -}}
{{- $lines = append $lines "secretAnnotations: no Secret is made" -}}
{{- end -}}
{{- with .Values.podDisruptionBudget -}}
{{- if and .minAvailable (not .enabled) -}}
{{- $lines = append $lines "podDisruptionBudget.minAvailable: without enabled one server is evicted at a time" -}}
{{- else if and .minAvailable .maxUnavailable -}}
{{- $lines = append $lines "podDisruptionBudget.maxUnavailable: minAvailable is taken" -}}
{{- end -}}
{{- end -}}
{{- if and ((.Values.metrics | default dict).nodeAgentPodMonitor | default dict).enabled (not .Values.deployNodeAgent) -}}
{{- $lines = append $lines "metrics.nodeAgentPodMonitor.enabled: without deployNodeAgent there is no node agent" -}}
{{- end -}}
{{- if and .Values.configuration.dataMoverPrepareTimeout (not .Values.deployNodeAgent) -}}
{{- $lines = append $lines "configuration.dataMoverPrepareTimeout: without deployNodeAgent there is no node agent" -}}
{{- end -}}
{{- range $index, $location := include "lifeboat.backupStorageLocations" . | fromYamlArray -}}
{{- if and (not $location.bucket) (or $location.name $location.provider $location.prefix $location.config) -}}
{{- $lines = append $lines (printf "configuration.backupStorageLocation.%d: it names no bucket" $index) -}}
{{- end -}}
{{- end -}}
{{- range $index, $location := include "lifeboat.volumeSnapshotLocations" . | fromYamlArray -}}
{{- if and (not $location.provider) (or $location.name $location.config) -}}
{{- $lines = append $lines (printf "configuration.volumeSnapshotLocation.%d: it names no provider" $index) -}}
{{- end -}}
{{- end -}}
{{- $lines | compact | join "\n" -}}
{{- end -}}

{{/* Lines for what of a value nobody reads: a dict of path, value and the keys that are known below it. */}}
{{- define "lifeboat.unread" -}}
{{- $keys := .keys -}}
{{- $path := .path -}}
{{- if kindIs "string" $keys -}}
{{- if not (empty .value) }}{{ printf "%s: %s\n" $path $keys }}{{ end -}}
{{- else if not (kindIs "map" $keys) -}}
{{- else if kindIs "slice" .value -}}
{{- range $index, $element := .value -}}
{{- include "lifeboat.unread" (dict "path" (printf "%s.%d" $path $index) "value" $element "keys" (get $keys "*" | default $keys)) -}}
{{- end -}}
{{- else if kindIs "map" .value -}}
{{- /* One location, as older charts have it, in place of a list of them. */ -}}
{{- if and (hasSuffix "Location" $path) (hasKey $keys "*") }}{{ $keys = get $keys "*" }}{{ end -}}
{{- range $key, $value := .value -}}
{{- $below := printf "%s.%s" $path $key | trimPrefix "." -}}
{{- if hasKey $keys $key -}}
{{- include "lifeboat.unread" (dict "path" $below "value" $value "keys" (get $keys $key)) -}}
{{- else if hasKey $keys "*" -}}
{{- include "lifeboat.unread" (dict "path" $below "value" $value "keys" (get $keys "*")) -}}
{{- else if or (kindIs "bool" $value) (not (empty $value)) -}}
{{- printf "%s: the chart does not know this key\n" $below -}}
{{- end -}}
{{- end -}}
{{- else if not (empty .value) -}}
{{- printf "%s: it is to hold other keys\n" $path -}}
{{- end -}}
{{- end -}}
