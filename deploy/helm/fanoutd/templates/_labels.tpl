{{- define "fanoutd.selector" -}}
app.kubernetes.io/name: fanoutd
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "fanoutd.labels" -}}
{{ include "fanoutd.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}
