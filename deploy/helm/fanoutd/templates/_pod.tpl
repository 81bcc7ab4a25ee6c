{{- define "fanoutd.pod" -}}
metadata:
  labels:
    {{- include "fanoutd.labels" . | nindent 4 }}
  annotations:
    checksum/config: {{ include "fanoutd.config" . | sha256sum }} # a change starts a rollout
spec:
  serviceAccountName: {{ .Release.Name }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if .Values.etcd.external }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      matchLabelKeys: [pod-template-hash] # each version of its own
      labelSelector:
        matchLabels:
          {{- include "fanoutd.selector" . | nindent 10 }}
    - maxSkew: 1
      topologyKey: topology.kubernetes.io/zone
      whenUnsatisfiable: ScheduleAnyway
      matchLabelKeys: [pod-template-hash] # each version of its own
      labelSelector:
        matchLabels:
          {{- include "fanoutd.selector" . | nindent 10 }}
  {{- else }}
  # The loss of a node must not take the majority of the copies with it.
  affinity:
    podAntiAffinity:
      {{- if eq .Values.antiAffinity "required" }}
      requiredDuringSchedulingIgnoredDuringExecution:
        - topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- include "fanoutd.selector" . | nindent 14 }}
      {{- else }}
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          podAffinityTerm:
            topologyKey: kubernetes.io/hostname
            labelSelector:
              matchLabels:
                {{- include "fanoutd.selector" . | nindent 16 }}
      {{- end }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: topology.kubernetes.io/zone
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "fanoutd.selector" . | nindent 10 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  containers:
    - name: fanoutd
      image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [--config, /etc/fanoutd/fanoutd.yaml]
      env:
        # About nine tenths of the memory limit below. Near it, the garbage collector
        # works harder instead of exceeding the limit.
        - name: GOMEMLIMIT
          value: {{ .Values.goMemLimit }}
      ports:
        - name: grpc
          containerPort: 7420
        - name: admin
          containerPort: 7421
        {{- if not .Values.etcd.external }}
        - name: peers
          containerPort: 2380
        - name: etcd
          containerPort: 2379
        {{- end }}
      {{- if .Values.etcd.external }}
      # Allows five minutes to read all resources from etcd.
      startupProbe:
        httpGet: {path: /readyz, port: admin, scheme: HTTPS}
        periodSeconds: 2
        failureThreshold: 150
      {{- else }}
      # A replica may wait for the others for any time, so it only has to answer.
      startupProbe:
        httpGet: {path: /healthz, port: admin, scheme: HTTPS}
        periodSeconds: 2
        failureThreshold: 150
      {{- end }}
      readinessProbe:
        httpGet: {path: /readyz, port: admin, scheme: HTTPS}
        periodSeconds: 2
        failureThreshold: 2
      # Checks that the process answers, not that etcd does. A restart would not help
      # etcd, and would lose the cached state that subscribers still read.
      livenessProbe:
        httpGet: {path: /healthz, port: admin, scheme: HTTPS}
        periodSeconds: 10
        failureThreshold: 6
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      volumeMounts:
        - {name: config, mountPath: /etc/fanoutd/fanoutd.yaml, subPath: fanoutd.yaml, readOnly: true}
        - {name: tls, mountPath: /etc/fanoutd/tls, readOnly: true}
        {{- if .Values.etcd.external }}
        - {name: etcd, mountPath: /etc/fanoutd/etcd, readOnly: true}
        {{- else }}
        - {name: cluster, mountPath: /etc/fanoutd/cluster, readOnly: true}
        - {name: data, mountPath: /data}
        {{- end }}
        - {name: access, mountPath: /etc/fanoutd/access, readOnly: true}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: config
      configMap: {name: {{ .Release.Name | quote }}}
    - name: tls
      secret: {secretName: {{ .Values.secrets.tls | quote }}, defaultMode: 0440}
    {{- if .Values.etcd.external }}
    - name: etcd
      secret: {secretName: {{ .Values.secrets.etcd | quote }}, defaultMode: 0440}
    {{- else }}
    - name: cluster
      secret: {secretName: {{ .Values.secrets.cluster | quote }}, defaultMode: 0440}
    {{- end }}
    - name: access
      secret: {secretName: {{ .Values.secrets.access | quote }}, defaultMode: 0440}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}
