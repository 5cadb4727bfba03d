"""The reference, described as if it were a stranger's program: what CANDIDATES.md says, and nothing of the project's own candidate."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]

REFERENCE = """
name = "stranger"
version = "1.0"
quorum = "dynamic"
promises = [
    "check-quorum", "pre-vote", "directory-identity", "linearizable-reads", "linearizable-operations", "node-trace", "durable-votes",
]

[artifacts]
clusters = "ROOT/clusters"
workloads = "ROOT/workloads"
[lists.peers]
of = "nodes"
each = '''
{"node_id": {{each.node_id}}, "host": "{{each.address}}", "port": {{each.port}},
 "directory_id": "{{each.directory_id}}", "voter": {{each.voter}}}'''

[[files]]
path = "config/node.json"
text = '''
{
  "node_id": {{node_id}}, "incarnation": {{incarnation}}, "cluster_id": {{cluster_id | json}},
  "data_directory": {{data | json}}, "trace_path": {{trace | json}},
  "nodes": [{{peers}}],
  "election_timeout_ms": {{election_timeout_ms}}, "election_jitter_ms": {{election_timeout_ms}},
  "fetch_timeout_ms": {{fetch_timeout_ms}}, "check_quorum_ms": {{check_quorum_ms}},
  "request_timeout_ms": {{request_timeout_ms}}, "fetch_max_wait_ms": 100, "seed": {{seed}}, "defects": []
}
'''

[[format.files]]
path = "meta.properties"
text = '''
version=1
cluster.id={{cluster_id}}
node.id={{node_id}}
directory.id={{directory_id}}
'''

[format]
directory_id = "meta.properties"

[start]
command = ["{{python}}", "-m", "clusters.candidates.reference.server", "--config", "{{directory}}/config/node.json"]
env = { PYTHONPATH = "{{artifact.clusters}}/.." }

[clients]
protocol = "reference"

[disk]
meta_properties = "meta.properties"
log = "__cluster_metadata-0"
quorum_state = "__cluster_metadata-0/quorum-state"

[evidence]
trace = true
transitions = "kip-996"
""".replace("ROOT", str(ROOT))
