{{- define "fanoutd.config" -}}
{{- $admin := printf "%s-admin" .Release.Name }}
{{- $defaults := dict "admin-hosts" (list $admin (printf "%s.%s.svc" $admin .Release.Namespace)) }}
{{- if .Values.etcd.external }}
{{- $_ := set $defaults "etcd-ca-file" "/etc/fanoutd/etcd/ca.crt" }}
{{- $_ := set $defaults "etcd-cert-file" "/etc/fanoutd/etcd/tls.crt" }}
{{- $_ := set $defaults "etcd-key-file" "/etc/fanoutd/etcd/tls.key" }}
{{- else }}
{{- $members := dict }}
{{- range $i := until (int .Values.replicas) }}
{{- $pod := printf "%s-%d" $.Release.Name $i }}
{{- $_ := set $members $pod (printf "%s.%s-peers.%s.svc" $pod $.Release.Name $.Release.Namespace) }}
{{- end }}
{{- $files := dict "ca-file" "/etc/fanoutd/cluster/ca.pem" "cert-file" "/etc/fanoutd/cluster/cert.pem" "key-file" "/etc/fanoutd/cluster/key.pem" }}
{{- $_ := set $defaults "data-dir" "/data" }}
{{- $_ := set $defaults "cluster" (merge (dict "members" $members) $files) }}
{{- end }}
{{- merge (deepCopy .Values.config) $defaults | toYaml }}
{{- end }}
