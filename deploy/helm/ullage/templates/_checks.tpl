{{/* Values that are right by themselves and make no sense together: what could only fail in a pod fails here, with what to do. */}}
{{- define "ullage.checks" -}}
{{- include "ullage.kafkaChecks" . -}}
{{- $workers := include "ullage.workers" . | int -}}
{{- $most := min (.Values.worker.keda.maxReplicas | default .Values.kafka.partitions | int) (int .Values.kafka.partitions) -}}
{{- if gt $workers (int .Values.kafka.partitions) -}}
{{- fail (printf "worker.replicas is %d, and kafka.partitions, %d, is the upper bound of useful workers" $workers (int .Values.kafka.partitions)) -}}
{{- end -}}
{{- if and .Values.worker.keda.enabled (gt $workers $most) -}}
{{- fail (printf "worker.keda.maxReplicas is %d, which is below worker.replicas, %d, where scaling begins" $most $workers) -}}
{{- end -}}
{{- if and .Values.worker.keda.enabled (or (include "ullage.strimziSecrets" .) (eq .Values.kafka.security.mechanism "AWS_MSK_IAM")) -}}
{{- fail "worker.keda.enabled: the chart cannot say how KEDA is to sign in at this Kafka; make a ScaledObject of your own" -}}
{{- end -}}
{{- if and .Values.worker.keda.enabled (ne .Values.layout "large") -}}
{{- fail "worker.keda.enabled needs layout large: in the small layout a worker is one process with all else" -}}
{{- end -}}
{{- if and .Values.replicaScaling.enabled (not .Values.usage.prometheusUrl) (not (dig "prometheus" "url" "" .Values.settings)) -}}
{{- fail "replicaScaling needs usage.prometheusUrl: the loads of EHPAs come from there" -}}
{{- end -}}
{{- if and (eq .Values.usage.reads "remote-write") (gt (ternary (.Values.sourceUsage.replicas | default 1) (include "ullage.workers" .) (eq .Values.layout "large") | int) 1) -}}
{{- fail "usage.reads remote-write needs one process that all senders reach: leave sourceUsage.replicas at 1 (worker.replicas in the small layout)" -}}
{{- end -}}
{{- if and .Values.nodeScaling.enabled (not .Values.nodeScaling.groups) (not .Values.nodeScaling.discovery) -}}
{{- fail "nodeScaling needs nodeScaling.groups (min:max:name) or nodeScaling.discovery (asg:tag=KEY,KEY=VALUE)" -}}
{{- end -}}
{{- $expander := .Values.nodeScaling.expander -}}
{{- if and $expander.url (not .Values.nodeScaling.enabled) -}}{{- fail "nodeScaling.expander.url: it chooses among node groups, so it needs nodeScaling.enabled" -}}{{- end -}}
{{- if and $expander.url (not $expander.certificateSecret) -}}
{{- fail "nodeScaling.expander.url needs nodeScaling.expander.certificateSecret, a Secret with ca.crt: the server is asked over TLS only" -}}
{{- end -}}
{{- range .Values.nodeScaling.groups -}}
{{- $part := splitList ":" . -}}
{{- if gt (int (index $part 0)) (int (index $part 1)) -}}
{{- fail (printf "nodeScaling.groups: '%s' wants at least %s nodes and at most %s" . (index $part 0) (index $part 1)) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.webhook.certificateSecret .Values.webhook.certManager.enabled -}}
{{- fail "webhook.certificateSecret is a Secret of yours, and webhook.certManager.enabled makes one: leave one of the two out" -}}
{{- end -}}
{{- range $name, $_ := .Values.accountAnnotations -}}
{{- if and (ne $.Values.layout "large") (hasPrefix "ullage-" $name) (not (has $name (list "ullage-agents" "ullage-worker" "ullage-webhook"))) -}}
{{- fail (printf "accountAnnotations: there is no '%s' in the small layout, whose accounts are ullage-worker, ullage-webhook and ullage-agents" $name) -}}
{{- end -}}
{{- if not (hasPrefix "ullage-" $name) -}}{{- fail (printf "accountAnnotations: '%s' is no account of this chart; its accounts begin with ullage-" $name) -}}{{- end -}}
{{- end -}}
{{- range $name, $_ := merge (dict) .Values.commonLabels .Values.podLabels -}}
{{- if has $name (list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component") -}}
{{- fail (printf "commonLabels and podLabels cannot say %s, by which Services and Deployments find their pods: nameOverride sets the name" $name) -}}
{{- end -}}
{{- end -}}
{{- include "ullage.settingsChecks" . -}}
{{- end }}

{{- define "ullage.kafkaChecks" -}}
{{- $kafka := .Values.kafka -}}
{{- $security := $kafka.security -}}
{{- $sasl := hasPrefix "SASL_" $security.protocol -}}
{{- range splitList "," $kafka.brokers -}}
{{- if gt (splitList ":" (trim .) | last | int) 65535 -}}{{- fail (printf "kafka.brokers: '%s' has no port between 1 and 65535" (trim .)) -}}{{- end -}}
{{- end -}}
{{- if eq $kafka.kind "single" -}}
{{- if $kafka.brokers -}}{{- fail "kafka.kind single starts a Kafka of its own: leave kafka.brokers empty, or say kafka.kind=existing" -}}{{- end -}}
{{- if gt (int $kafka.replication) 1 -}}{{- fail "kafka.kind single is one node, which keeps one copy: leave kafka.replication at -1" -}}{{- end -}}
{{- if or (ne $security.protocol "PLAINTEXT") $security.secret $security.secrets -}}{{- fail "kafka.kind single has a login that is made with it: leave kafka.security out" -}}{{- end -}}
{{- end -}}
{{- if and (eq $security.mechanism "AWS_MSK_IAM") (or (not $security.region) (ne $security.protocol "SASL_SSL")) -}}
{{- fail "kafka.security.mechanism AWS_MSK_IAM needs kafka.security.protocol SASL_SSL and the cluster's region in kafka.security.region" -}}
{{- end -}}
{{- if and $security.mechanism (not $sasl) -}}
{{- fail (printf "kafka.security.mechanism %s needs kafka.security.protocol SASL_SSL or SASL_PLAINTEXT" $security.mechanism) -}}
{{- end -}}
{{- if and $sasl (not $security.mechanism) -}}
{{- fail (printf "kafka.security.protocol %s needs kafka.security.mechanism" $security.protocol) -}}
{{- end -}}
{{- $names := list "setup" "commands" -}}
{{- range include "ullage.components" . | fromJsonArray -}}{{- $names = append $names .name -}}{{- end -}}
{{- $known := list "setup" "commands" "clock" "worker" "source-kube" "source-usage" "source-load" "source-asg" "consumer-status" "consumer-resizer" "consumer-evictor" "consumer-asg" "consumer-expander" "consumer-autoscalers" "metrics-api" "webhook" -}}
{{- range $name, $_ := $security.secrets -}}
{{- if not (has $name $known) -}}{{- fail (printf "kafka.security.secrets: '%s' is none of %s" $name (join ", " $known)) -}}{{- end -}}
{{- end -}}
{{- range $name := $names -}}
{{- if and $sasl (eq $kafka.kind "existing") (ne $security.mechanism "AWS_MSK_IAM") (not $security.secret) (not (get ($security.secrets | default dict) $name)) -}}
{{- fail (printf "kafka.security.protocol SASL_SSL and SASL_PLAINTEXT need kafka.security.secret, a Secret with username and password, or one for '%s' in kafka.security.secrets" $name) -}}
{{- end -}}
{{- end -}}
{{- if eq $kafka.kind "strimzi" -}}
{{- $cluster := required "kafka.strimzi.cluster is needed: the name of the Kafka object" $kafka.strimzi.cluster -}}
{{- if and (eq $kafka.strimzi.authentication "tls") (ne $security.protocol "SSL") -}}
{{- fail "kafka.strimzi.authentication tls needs kafka.security.protocol SSL" -}}
{{- end -}}
{{- if and (eq $kafka.strimzi.authentication "scram-sha-512") (ne $security.mechanism "SCRAM-SHA-512") -}}
{{- fail "kafka.strimzi.authentication scram-sha-512 needs kafka.security.protocol SASL_SSL (or SASL_PLAINTEXT) and mechanism SCRAM-SHA-512" -}}
{{- end -}}
{{- if include "ullage.settingThere" (list .Values.settings "worker.name") -}}
{{- fail "settings.worker.name: the KafkaTopic and KafkaUser objects are made for workers called ullage" -}}
{{- end -}}
{{- $there := $kafka.strimzi.namespace | default .Release.Namespace -}}
{{- if and (ne $there .Release.Namespace) (not $security.secret) (not $security.secrets) -}}
{{- fail (printf "Strimzi keeps the Secrets of its KafkaUsers and of its authority in namespace %s: copy them into ones with username and password, or user.crt and user.key, and ca.crt, and name them in kafka.security.secrets, or one for all in kafka.security.secret" $there) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* What `settings` may not say, because a value of the chart does, which more depends on than the settings. */}}
{{- define "ullage.settingsChecks" -}}
{{- $settings := .Values.settings -}}
{{- range $name, $value := dict
  "log.brokers" "kafka.brokers" "log.security.protocol" "kafka.security.protocol" "log.security.mechanism" "kafka.security.mechanism"
  "log.security.region" "kafka.security.region" "log.security.username" "kafka.security.secret" "log.security.password" "kafka.security.secret"
  "topics.prefix" "kafka.topicPrefix" "topics.partitions" "kafka.partitions" "topics.replication" "kafka.replication"
  "cluster.name" "clusterName" "cluster.nodes" "nodeScaling.enabled" "cluster.replicas" "replicaScaling.enabled"
  "usage.reads" "usage.reads" "vertical.recommender" "recommender" "webhook.failure_policy" "webhook.failurePolicy"
  "webhook.certificate" "webhook.certificateSecret" "webhook.key" "webhook.certificateSecret" "webhook.ca" "webhook.certificateSecret"
  "aws.region" "nodeScaling.region" "aws.groups" "nodeScaling.groups" "aws.discovery" "nodeScaling.discovery"
  "expander.url" "nodeScaling.expander.url" "expander.certificate" "nodeScaling.expander.certificateSecret" -}}
{{- if include "ullage.settingThere" (list $settings $name) -}}
{{- fail (printf "settings.%s: say it in %s" $name $value) -}}
{{- end -}}
{{- end -}}
{{- range $name := list "log.kind" "metrics.host" "metrics.port" "webhook.namespace" "webhook.port" "webhook.service" "webhook.service_port" "metrics_api.namespace" "metrics_api.port" "metrics_api.service" "metrics_api.service_port" "receiver.host" "receiver.port" -}}
{{- if include "ullage.settingThere" (list $settings $name) -}}
{{- fail (printf "settings.%s: the chart's Services and probes depend on it, so it cannot be changed" $name) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "ullage.settingThere" -}}
{{- $at := index . 0 -}}
{{- $there := true -}}
{{- range splitList "." (index . 1) -}}
{{- if and $there (kindIs "map" $at) (hasKey $at .) -}}{{- $at = index $at . -}}{{- else -}}{{- $there = false -}}{{- end -}}
{{- end -}}
{{- if $there }}yes{{ end -}}
{{- end }}
