{{- define "glasstream.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- define "glasstream.labels" -}}
{ app.kubernetes.io/name: glasstream, app.kubernetes.io/component: {{ . }} }
{{- end }}

{{- /* What the pods of all components have in common. Arguments: the root, and the name of the component. */}}
{{- define "glasstream.pod" -}}
{{- $root := index . 0 -}}
automountServiceAccountToken: false
enableServiceLinks: false # a Service named glasstream... would set variables that look like settings
affinity: # workers of a stage on machines of their own, where there are enough
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{ include "glasstream.labels" (index . 1) }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: { type: RuntimeDefault }
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- with $root.Values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with $root.Values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with $root.Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
serviceAccountName: {{ $root.Values.serviceAccountName | quote }}
{{- end }}

{{- /* What all containers have in common: image, settings, and what they may do. */}}
{{- define "glasstream.container" -}}
image: {{ include "glasstream.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
envFrom:
  - configMapRef: { name: glasstream }
  - secretRef: { name: {{ .Values.secrets.kafka | quote }}, optional: true }
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- end }}

{{- /* Arguments: the name of a port, and the scheme. */}}
{{- define "glasstream.probes" -}}
startupProbe:
  httpGet: { path: /healthz, port: {{ index . 0 }}, scheme: {{ index . 1 }} }
  periodSeconds: 5
  failureThreshold: 36
readinessProbe:
  httpGet: { path: /readyz, port: {{ index . 0 }}, scheme: {{ index . 1 }} }
  periodSeconds: 10
  timeoutSeconds: 5
livenessProbe:
  httpGet: { path: /healthz, port: {{ index . 0 }}, scheme: {{ index . 1 }} }
  periodSeconds: 15
  timeoutSeconds: 5
  failureThreshold: 4
{{- end }}

{{- /* Where a container writes. The file system of the image is read-only. */}}
{{- define "glasstream.mounts" -}}
- { name: tmp, mountPath: /tmp }
- { name: kernels, mountPath: /var/cache/glasstream }
{{- range .Values.extraVolumeMounts }}
- {{ toJson . }}
{{- end }}
{{- end }}

{{- define "glasstream.volumes" -}}
- name: tmp
  emptyDir: { sizeLimit: 64Mi }
- name: kernels
  emptyDir: { sizeLimit: 256Mi }
{{- range .Values.extraVolumes }}
- {{ toJson . }}
{{- end }}
{{- end }}

{{- /* Labels and annotations of the pods of a component. Arguments: the root, the name, and further annotations. */}}
{{- define "glasstream.metadata" -}}
{{- $root := index . 0 -}}
labels: {{ toJson (merge (dict "app.kubernetes.io/name" "glasstream" "app.kubernetes.io/component" (index . 1)) $root.Values.podLabels) }}
annotations:
  checksum/settings: {{ toJson $root.Values.settings | sha256sum }} # other settings, other pods
  {{- range $name, $value := merge (index . 2) $root.Values.podAnnotations }}
  {{ $name }}: {{ $value | quote }}
  {{- end }}
{{- end }}
