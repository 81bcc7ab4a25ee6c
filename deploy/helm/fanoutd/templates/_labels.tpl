{{- define "fanoutd.selector" -}}
app.kubernetes.io/name: fanoutd
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "fanoutd.recovery" -}}
app.kubernetes.io/name: fanoutd-recovery # not a server
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "fanoutd.labels" -}}
{{ include "fanoutd.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | replace "+" "_" | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}
