//! The built-in types of a Kubernetes 1.34 server.

use lifeboat_object::ApiResource;

/// Group-versions in the server's order of preference. Below each its resources: plural, kind, scope, verbs (`*` for
/// the usual eight), short names, categories, subresources.
const TABLE: &str = "\
v1
  bindings Binding ns create - - -
  componentstatuses ComponentStatus cluster get,list cs - -
  configmaps ConfigMap ns * cm - -
  endpoints Endpoints ns * ep - -
  events Event ns * ev - -
  limitranges LimitRange ns * limits - -
  namespaces Namespace cluster create,delete,get,list,patch,update,watch ns - finalize,status
  nodes Node cluster * no - proxy,status
  persistentvolumeclaims PersistentVolumeClaim ns * pvc - status
  persistentvolumes PersistentVolume cluster * pv - status
  pods Pod ns * po all attach,binding,ephemeralcontainers,eviction,exec,log,portforward,proxy,resize,status
  podtemplates PodTemplate ns * - - -
  replicationcontrollers ReplicationController ns * rc all scale,status
  resourcequotas ResourceQuota ns * quota - status
  secrets Secret ns * - - -
  serviceaccounts ServiceAccount ns * sa - token
  services Service ns * svc all proxy,status
apiregistration.k8s.io/v1
  apiservices APIService cluster * - api-extensions status
apps/v1
  controllerrevisions ControllerRevision ns * - - -
  daemonsets DaemonSet ns * ds all status
  deployments Deployment ns * deploy all scale,status
  replicasets ReplicaSet ns * rs all scale,status
  statefulsets StatefulSet ns * sts all scale,status
events.k8s.io/v1
  events Event ns * ev - -
authentication.k8s.io/v1
  selfsubjectreviews SelfSubjectReview cluster create - - -
  tokenreviews TokenReview cluster create - - -
authorization.k8s.io/v1
  localsubjectaccessreviews LocalSubjectAccessReview ns create - - -
  selfsubjectaccessreviews SelfSubjectAccessReview cluster create - - -
  selfsubjectrulesreviews SelfSubjectRulesReview cluster create - - -
  subjectaccessreviews SubjectAccessReview cluster create - - -
autoscaling/v2
  horizontalpodautoscalers HorizontalPodAutoscaler ns * hpa all status
autoscaling/v1
  horizontalpodautoscalers HorizontalPodAutoscaler ns * hpa all status
batch/v1
  cronjobs CronJob ns * cj all status
  jobs Job ns * - all status
certificates.k8s.io/v1
  certificatesigningrequests CertificateSigningRequest cluster * csr - approval,status
networking.k8s.io/v1
  ingressclasses IngressClass cluster * - - -
  ingresses Ingress ns * ing - status
  ipaddresses IPAddress cluster * ip - -
  networkpolicies NetworkPolicy ns * netpol - -
  servicecidrs ServiceCIDR cluster * - - status
policy/v1
  poddisruptionbudgets PodDisruptionBudget ns * pdb - status
rbac.authorization.k8s.io/v1
  clusterrolebindings ClusterRoleBinding cluster * - - -
  clusterroles ClusterRole cluster * - - -
  rolebindings RoleBinding ns * - - -
  roles Role ns * - - -
storage.k8s.io/v1
  csidrivers CSIDriver cluster * - - -
  csinodes CSINode cluster * - - -
  csistoragecapacities CSIStorageCapacity ns * - - -
  storageclasses StorageClass cluster * sc - -
  volumeattachments VolumeAttachment cluster * - - status
  volumeattributesclasses VolumeAttributesClass cluster * vac - -
admissionregistration.k8s.io/v1
  mutatingwebhookconfigurations MutatingWebhookConfiguration cluster * - api-extensions -
  validatingadmissionpolicies ValidatingAdmissionPolicy cluster * - api-extensions status
  validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding cluster * - api-extensions -
  validatingwebhookconfigurations ValidatingWebhookConfiguration cluster * - api-extensions -
apiextensions.k8s.io/v1
  customresourcedefinitions CustomResourceDefinition cluster * crd,crds api-extensions status
scheduling.k8s.io/v1
  priorityclasses PriorityClass cluster * pc - -
coordination.k8s.io/v1
  leases Lease ns * - - -
node.k8s.io/v1
  runtimeclasses RuntimeClass cluster * - - -
discovery.k8s.io/v1
  endpointslices EndpointSlice ns * - - -
resource.k8s.io/v1
  deviceclasses DeviceClass cluster * - - -
  resourceclaims ResourceClaim ns * - - status
  resourceclaimtemplates ResourceClaimTemplate ns * - - -
  resourceslices ResourceSlice cluster * - - -
flowcontrol.apiserver.k8s.io/v1
  flowschemas FlowSchema cluster * - - status
  prioritylevelconfigurations PriorityLevelConfiguration cluster * - - status
";

const USUAL_VERBS: &str = "create,delete,deletecollection,get,list,patch,update,watch";

/// All built-in types, groups and versions in order of preference.
pub(crate) fn resources() -> Vec<ApiResource> {
    let mut found: Vec<ApiResource> = Vec::new();
    let (mut group, mut version) = ("", "");
    for line in TABLE.lines() {
        let Some(row) = line.strip_prefix("  ") else {
            (group, version) = line.split_once('/').unwrap_or(("", line));
            continue;
        };
        let mut columns = row.split(' ');
        let mut column = || columns.next().unwrap_or("-");
        let (resource, kind, scope) = (column(), column(), column());
        let verbs = column();
        found.push(ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            resource: resource.to_owned(),
            kind: kind.to_owned(),
            singular: kind.to_lowercase(),
            namespaced: scope == "ns",
            verbs: words(if verbs == "*" { USUAL_VERBS } else { verbs }),
            short_names: words(column()),
            categories: words(column()),
            subresources: words(column()),
            preferred: !found.iter().any(|r| r.group == group && r.resource == resource),
        });
    }
    found
}

/// The verbs of an ordinary type.
pub(crate) fn usual_verbs() -> Vec<String> {
    words(USUAL_VERBS)
}

fn words(text: &str) -> Vec<String> {
    text.split(',').filter(|w| *w != "-").map(str::to_owned).collect()
}
