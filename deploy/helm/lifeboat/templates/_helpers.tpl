{{/* Names are those of Velero's chart, so that what others know by name (roles of clouds, schedules of backups) stays what it is. */}}
{{- define "lifeboat.name" -}}
{{- .Values.nameOverride | default "velero" | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "lifeboat.fullname" -}}
{{- $name := include "lifeboat.name" . -}}
{{- $release := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- .Values.fullnameOverride | default $release | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of what is cluster-wide: that of `lifeboat install`, of which there is one for each namespace. */}}
{{- define "lifeboat.clusterName" -}}
{{- if eq .Release.Namespace "velero" }}velero{{ else }}velero-{{ .Release.Namespace }}{{ end -}}
{{- end -}}

{{/* Where the server serves metrics, and whether it lives. */}}
{{- define "lifeboat.metricsPort" -}}
{{- regexFind "[0-9]+$" (.Values.configuration.metricsAddress | default "" | toString) | default "8085" -}}
{{- end -}}

{{- define "lifeboat.serviceAccount" -}}
{{- with .Values.serviceAccount.server -}}
{{- .name | default (.create | ternary (printf "%s-server" (include "lifeboat.fullname" $)) "default") -}}
{{- end -}}
{{- end -}}

{{/* The labels of an object: a list of the context and of what the values add. */}}
{{- define "lifeboat.labels" -}}
{{- $own := merge (dict "component" "velero") (include "lifeboat.chartLabels" (first .) | fromYaml) -}}
{{- toYaml (mergeOverwrite $own (last . | default dict)) -}}
{{- end -}}

{{- define "lifeboat.chartLabels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/name: {{ include "lifeboat.name" . }}
{{- end -}}

{{/*
The selector of the Deployment cannot be changed, so one that is there keeps its own, whoever made it. A new one has that of Velero's chart,
because tools that render without a cluster see none.
*/}}
{{- define "lifeboat.selector" -}}
{{- with lookup "apps/v1" "Deployment" .Release.Namespace (include "lifeboat.fullname" .) -}}
{{- toYaml .spec.selector -}}
{{- else -}}
matchLabels:
  {{- include "lifeboat.chartLabels" . | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* Not empty for the image of Velero's own server, which this chart cannot run. */}}
{{- define "lifeboat.isVeleroImage" -}}
{{- if regexMatch "^((index\\.|registry-1\\.)?docker\\.io/)?velero/velero$" .Values.image.repository }}yes{{ end -}}
{{- end -}}

{{- define "lifeboat.image" -}}
{{- with .Values.image -}}
{{- if include "lifeboat.isVeleroImage" $ -}}
lifeboat/lifeboat:{{ $.Chart.AppVersion }}
{{- else if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "lifeboat.imagePullSecrets" -}}
{{- with .Values.image.imagePullSecrets -}}
imagePullSecrets:
  {{- range . }}
  - name: {{ if kindIs "map" . }}{{ .name }}{{ else }}{{ . }}{{ end }}
  {{- end }}
{{- end -}}
{{- end -}}

{{/* The name of the Secret that is made, or is there, for credentials and variables. */}}
{{- define "lifeboat.secretName" -}}
{{- with .Values.credentials -}}
{{- .existingSecret | default .name | default (include "lifeboat.fullname" $) -}}
{{- end -}}
{{- end -}}

{{/* The Secret with the credentials that are mounted; empty for none. */}}
{{- define "lifeboat.mountedSecret" -}}
{{- with .Values.credentials -}}
{{- if and .useSecret (or .existingSecret .secretContents) }}{{ include "lifeboat.secretName" $ }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "lifeboat.credentialsFile" -}}
{{- $keys := keys (.Values.credentials.secretContents | default dict) | sortAlpha -}}
{{- if or .Values.credentials.existingSecret (has "cloud" $keys) }}cloud{{ else }}{{ first $keys }}{{ end -}}
{{- end -}}

{{/* The container's security context that the restricted profile of pods demands. */}}
{{- define "lifeboat.restricted" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
readOnlyRootFilesystem: true
{{- end -}}

{{/* A value as text: Helm reads whole numbers as fractions, and prints large ones with an exponent. */}}
{{- define "lifeboat.text" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) }}{{ int64 . }}{{ else }}{{ . }}{{ end -}}
{{- end -}}

{{/* A map of texts, without what is null. */}}
{{- define "lifeboat.texts" -}}
{{- range $key, $value := . }}
{{- if not (kindIs "invalid" $value) }}
{{ $key | quote }}: {{ include "lifeboat.text" $value | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Not empty when the backups lie in a volume. */}}
{{- define "lifeboat.directory" -}}
{{- with .Values.directory -}}
{{- if and .claim .nfs }}{{ fail "directory: claim and nfs cannot both be given, because backups lie in one of them" }}{{ end -}}
{{- if or .claim .nfs }}yes{{ end -}}
{{- end -}}
{{- end -}}

{{/* Locations as a list, each with its provider: a list of the context and of the value, which is a list or one. */}}
{{- define "lifeboat.locations" -}}
{{- $default := (first .).Values.configuration.provider -}}
{{- $all := last . | default list -}}
{{- if kindIs "map" $all }}{{ $all = list $all }}{{ end -}}
{{- $out := list -}}
{{- range $all }}{{ $out = append $out (merge (dict "provider" (.provider | default $default)) .) }}{{ end -}}
{{- toYaml $out -}}
{{- end -}}

{{/* Storage locations; a volume makes one when there is none. */}}
{{- define "lifeboat.backupStorageLocations" -}}
{{- $all := .Values.configuration.backupStorageLocation -}}
{{- if and (include "lifeboat.directory" .) (not $all) -}}
{{- $all = dict "default" true "provider" "lifeboat.io/directory" "bucket" "velero" -}}
{{- end -}}
{{- include "lifeboat.locations" (list . $all) -}}
{{- end -}}

{{- define "lifeboat.volumeSnapshotLocations" -}}
{{- include "lifeboat.locations" (list . .Values.configuration.volumeSnapshotLocation) -}}
{{- end -}}

{{/* The ConfigMap with the settings of the Jobs that maintain repositories, made here or there already; empty for none. */}}
{{- define "lifeboat.maintenanceConfigMap" -}}
{{- with (.Values.configuration.repositoryMaintenanceJob | default dict).repositoryConfigData -}}
{{- if or .name .global .repositories }}{{ .name | default (printf "%s-repo-maintenance" (include "lifeboat.fullname" $)) }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* One line for each flag of the server. */}}
{{- define "lifeboat.args" -}}
{{- $c := .Values.configuration -}}
- server
- --features={{ $c.features | default "" }}
{{- range $flag, $value := dict
  "default-volumes-to-fs-backup" $c.defaultVolumesToFsBackup
  "default-snapshot-move-data" $c.defaultSnapshotMoveData
  "disable-informer-cache" $c.disableInformerCache }}
{{- if $value }}
- --{{ $flag }}=true
{{- end }}
{{- end }}
- --uploader-type={{ $c.uploaderType | default "kopia" }}
{{- if $c.restoreOnlyMode }}
- --restore-only
{{- end }}
{{- range $flag, $value := dict
  "backup-sync-period" $c.backupSyncPeriod
  "client-burst" $c.clientBurst
  "client-page-size" $c.clientPageSize
  "client-qps" $c.clientQPS
  "default-backup-storage-location" $c.defaultBackupStorageLocation
  "default-backup-ttl" $c.defaultBackupTTL
  "default-item-operation-timeout" $c.defaultItemOperationTimeout
  "default-repo-maintain-frequency" $c.defaultRepoMaintainFrequency
  "default-volume-snapshot-locations" $c.defaultVolumeSnapshotLocations
  "disable-controllers" $c.disableControllers
  "fs-backup-timeout" $c.fsBackupTimeout
  "garbage-collection-frequency" $c.garbageCollectionFrequency
  "item-block-worker-count" $c.itemBlockWorkerCount
  "log-format" $c.logFormat
  "log-level" $c.logLevel
  "metrics-address" $c.metricsAddress
  "plugin-dir" $c.pluginDir
  "profiler-address" $c.profilerAddress
  "restore-resource-priorities" $c.restoreResourcePriorities
  "store-validation-frequency" $c.storeValidationFrequency
  "terminating-resource-timeout" $c.terminatingResourceTimeout }}
{{- if kindIs "slice" $value }}{{ $value = join "," $value }}{{ end }}
{{- if not (or (kindIs "invalid" $value) (eq (toString $value) "")) }}
- {{ printf "--%s=%s" $flag (include "lifeboat.text" $value) | quote }}
{{- end }}
{{- end }}
{{- with include "lifeboat.maintenanceConfigMap" . }}
- --repo-maintenance-job-configmap={{ . }}
{{- end }}
{{- /* compat: older charts of Velero's have these in place of the ConfigMap. */}}
{{- with $c.repositoryMaintenanceJob }}
{{- range $flag, $value := dict
  "keep-latest-maintenance-jobs" .latestJobsCount
  "maintenance-job-cpu-request" (.requests | default dict).cpu
  "maintenance-job-mem-request" (.requests | default dict).memory
  "maintenance-job-cpu-limit" (.limits | default dict).cpu
  "maintenance-job-mem-limit" (.limits | default dict).memory }}
{{- if not (or (kindIs "invalid" $value) (eq (toString $value) "")) }}
- {{ printf "--%s=%s" $flag (include "lifeboat.text" $value) | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- range $c.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- if include "lifeboat.directory" . }}
- --directory-root=/backups
{{- end }}
{{- end -}}

{{/* Variables out of a map, or out of a list as of a container: a list of the context and these. */}}
{{- define "lifeboat.env" -}}
{{- $root := first . -}}
{{- $all := last . -}}
{{- if kindIs "map" $all }}
{{- range $name, $value := $all }}
- name: {{ $name }}
  value: {{ tpl (include "lifeboat.text" $value) $root | quote }}
{{- end }}
{{- else if $all }}
{{ toYaml $all }}
{{- end }}
{{- end -}}
