// The members of the cluster, for visitors with the right "admin". A server without a cluster has no such section.

import { $, el, keyed, say } from './dom.js';
import { bytes, dateAndTime, plural, unknown } from './format.js';
import { code, explain, get, Outdated, Refusal, rights } from './api.js';

const roles = { ROLE_LEADER: 'leader', ROLE_FOLLOWER: 'follower', ROLE_LEARNER: 'does not vote yet' };
const alarms = { ALARM_NO_SPACE: 'no space', ALARM_CORRUPT: 'corrupt' };
const columns = ['role', 'health', 'fail', 'behind', 'database', 'version', 'certificate'];

// isForGood reports whether an error means that there is no cluster, or that the visitor may not see it.
const isForGood = (error) => error instanceof Refusal && (error.wantsToken || error.code === code.unimplemented || error.reason === 'NO_CLUSTER');

function makeMember() {
  const parts = { name: el('th', { scope: 'row' }) };
  for (const column of columns) parts[column] = el('td');
  const node = el('tr', {}, ...Object.values(parts));
  node.parts = parts;
  return node;
}

function updateMember({ parts }, m) {
  const answers = m.lagEntries !== undefined;
  say(parts.name, m.name || m.id);
  say(parts.role, roles[m.role] ?? unknown);
  say(parts.health, [m.healthy ? 'healthy' : m.problem, ...(m.alarms ?? []).map((a) => `alarm: ${alarms[a] ?? a}`)].join(' · '));
  say(parts.fail, m.mayFail ? 'yes' : 'no');
  say(parts.behind, answers ? plural(m.lagEntries, 'entry').replace('entrys', 'entries') : unknown);
  say(parts.database, answers ? `${bytes(m.databaseBytes ?? 0)} of ${bytes(m.quotaBytes ?? 0)}` : unknown);
  say(parts.version, [m.version, m.etcdVersion && `etcd ${m.etcdVersion}`].filter(Boolean).join(' · ') || unknown);
  say(parts.certificate, m.certificateExpires ? dateAndTime(new Date(m.certificateExpires)) : unknown);
}

// Cluster shows what the server knows of its cluster.
export class Cluster {
  constructor() {
    this.forget();
  }

  // forget drops the last answer, because it was for another token.
  forget() {
    this.none = false; // there is no cluster, or the visitor may not see it
    this.allowed = false;
    $('cluster').hidden = true;
  }

  // ask asks the server. Without a cluster or the right, it asks only once: each refusal is audited. Any other error may
  // pass, so the last answer stays.
  async ask() {
    if (this.none) return;
    try {
      this.allowed ||= (await rights('*', '')).includes('admin');
      if (!this.allowed) {
        this.none = true;
        return;
      }
      const answer = await get('v1/cluster', {});
      this.none = !answer.members?.some((m) => m.peerUrls?.length > 0);
      if (!this.none) this.show(answer);
    } catch (error) {
      if (error instanceof Outdated) return;
      if (isForGood(error)) this.none = true;
      else say($('cluster-note'), `${explain(error)}. The members are as they were before`);
    }
  }

  show(answer) {
    $('cluster').hidden = false;
    say($('cluster-note'), answer.safe
      ? `Any one member may fail. Cluster ${answer.clusterId}, version ${answer.clusterVersion}, seen by ${answer.answeredBy}`
      : `No further member may fail: ${answer.problem}. Seen by ${answer.answeredBy}`);
    keyed($('cluster-rows'), answer.members, (m) => m.id, makeMember, updateMember);
  }
}
