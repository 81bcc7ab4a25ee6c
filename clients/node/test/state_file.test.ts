import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, lstat, mkdtemp, open, readdir, readFile, rm, stat, symlink, writeFile, type FileHandle } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { Client } from '../src/index.js';
import type { StoredObject } from '../src/object.js';
import { scopeOf } from '../src/options.js';
import { StateFile } from '../src/state_file.js';
import { ScriptedServer } from './scripted.js';

const folder = await mkdtemp(join(tmpdir(), 'state-'));
after(() => rm(folder, { recursive: true }));

const fileAt = (path: string) => new StateFile(path, 64 << 20, { resource: 'config' });
const object = (key: string, value: StoredObject['value']): StoredObject => ({
  key,
  value,
  contentType: 'text/plain',
  labels: { a: 'b' },
  opaque: false,
  createRevision: 1n,
  modRevision: 2n ** 60n,
  version: 3n,
  hasTTL: true,
});
const position = { epoch: 'e', revision: 2n ** 62n + 1n };

void test('a state is read as it was written', async () => {
  const file = fileAt(join(folder, 'a'));
  const objects = [object('a', 'text'), object('b', new Uint8Array([0, 255])), object('c', ''), object('d', undefined)];
  await file.write(position, objects);
  const saved = await file.read();
  assert.deepEqual({ ...saved?.position }, position);
  assert.deepEqual(saved?.objects.map((o) => ({ ...o })), objects);
  assert.equal((await stat(join(folder, 'a'))).mode & 0o777, 0o600);
});

void test('what does not change the objects may change', { timeout: 300_000 }, async () => {
  const path = join(folder, 'delivery');
  await new StateFile(path, 1 << 20, { resource: 'config', scope: scopeOf({}) }).write(position, [object('a', 'text')]);
  await using server = await ScriptedServer.start({ watch: () => {} });
  await using client = new Client(server.address, { insecure: true });
  const options = { lastKnownGood: { path, maxBytes: 1 << 20 }, latest: true, maxBatchDelay: 1000 };
  for (const [jsonValues, want] of [[false, 1], [true, 0]] as const) {
    await using informer = client.resource('config').informer({ ...options, jsonValues });
    const warned = once(informer, 'warning');
    informer.start();
    await (want ? informer.waitForState() : warned);
    assert.equal(informer.size, want);
  }
});

void test('a state that is too large is not written', async () => {
  const file = new StateFile(join(folder, 'b'), 100, { resource: 'config' });
  await assert.rejects(file.write(position, [object('a', 'x'.repeat(100))]), /larger than 100 bytes/);
  assert.equal(await file.read(), undefined);
});

// A state of 100,000 objects must not block the process while it is written or read.
void test('other work goes on while a state is written and read', async () => {
  const objects = Array.from({ length: 20_000 }, (_, n) => object(`o/${n}`, 'x'));
  let turns = 0;
  let most = 0;
  let encoded = 0;
  let over = false;
  const turn = () => {
    turns++;
    most = Math.max(most, encoded);
    encoded = 0;
    if (!over) setImmediate(turn);
  };
  const counted = objects.map((o) => ({
    ...o,
    get value() {
      encoded++;
      return 'x';
    },
  }));
  setImmediate(turn);
  const file = fileAt(join(folder, 'large'));
  const written = file.write(position, counted);
  counted.length = 0; // the copy changes meanwhile
  await written;
  assert.ok(turns > 0 && most <= 1000, `${most} of 20,000 objects were encoded without a pause`);
  turns = 0;
  const saved = await file.read();
  over = true;
  assert.equal(saved?.objects.length, 20_000);
  assert.ok(turns >= 20, `${turns} turns of other work while 20,000 objects were read`);
});

void test('only a regular file is read or replaced', { timeout: 300_000 }, async () => {
  const socket = join(folder, 'socket');
  const server = createServer().listen(socket);
  await once(server, 'listening');
  const pipe = join(folder, 'pipe');
  execFileSync('mkfifo', [pipe]);
  // A device of our own, because a wrong client would replace it. Only root can make one.
  const device = join(folder, 'device');
  const devices = spawnSync('mknod', [device, 'c', '1', '3']).status === 0 ? [device, join(folder, 'link-to-device')] : [];
  await symlink('device', join(folder, 'link-to-device'));
  await assert.rejects(fileAt('/dev/null').read(), /it is a device, not a regular file/);
  for (const [path, kind] of [
    ...devices.map((path) => [path, 'a device'] as const),
    [pipe, 'a named pipe'],
    [folder, 'a directory'],
    [socket, 'a socket'],
  ] as const) {
    const before = await lstat(path);
    await assert.rejects(fileAt(path).read(), new RegExp(`cannot use .*: it is ${kind}, not a regular file`));
    await assert.rejects(fileAt(path).write(position, []), new RegExp(`cannot save .*: it is ${kind}, not a regular file`));
    assert.equal((await lstat(path)).ino, before.ino);
  }
  server.close();
  await once(server, 'close');
});

void test('an informer ends if its state cannot be in a regular file', { timeout: 300_000 }, async () => {
  const pipe = join(folder, 'state-pipe');
  execFileSync('mkfifo', [pipe]);
  await using client = new Client('127.0.0.1:1');
  for (const [path, kind] of [
    ['/dev/null', 'a device'],
    [pipe, 'a named pipe'],
    [folder, 'a directory'],
  ] as const) {
    const informer = client.resource('config').informer({ lastKnownGood: { path, maxBytes: 1 << 20 } });
    const warnings: Error[] = [];
    informer.on('warning', (warning) => warnings.push(warning));
    const refused = new RegExp(`cannot use .*${path}: it is ${kind}, not a regular file`);
    await assert.rejects(informer.start().waitForState(), refused);
    assert.deepEqual(warnings, []);
  }
});

void test('a pipe in the place of the new file is replaced', { timeout: 300_000 }, async () => {
  const path = join(folder, 'c');
  execFileSync('mkfifo', [`${path}.new`]);
  await fileAt(path).write(position, []);
  assert.ok(await fileAt(path).read());
});

void test('a link stays, and its target is replaced', async () => {
  for (const name of ['target', 'missing']) {
    const target = join(folder, name);
    const link = join(folder, `link-to-${name}`);
    await symlink(name, link);
    if (name === 'target') await fileAt(target).write(position, []);
    await fileAt(link).write(position, [object('a', 'b')]);
    assert.ok((await lstat(link)).isSymbolicLink());
    assert.ok((await lstat(target)).isFile());
    assert.equal((await fileAt(target).read())?.objects.length, 1);
  }
});

void test('a file keeps its mode, owner and group', async () => {
  const path = join(folder, 'mine');
  await writeFile(path, '');
  await chmod(path, 0o640);
  const root = process.getuid?.() === 0;
  if (root) await chown(path, 1234, 5678);
  const before = await stat(path);
  await fileAt(path).write(position, []);
  const { mode, uid, gid, ino } = await stat(path);
  assert.notEqual(ino, before.ino);
  assert.deepEqual({ mode, uid, gid }, { mode: before.mode, uid: before.uid, gid: before.gid });
});

void test('a file stays if a new one cannot have its owner and group', { skip: process.getuid?.() !== 0 && 'needs root' }, async () => {
  const [user, other] = [1234, 5678];
  const theirs = await mkdtemp(join(tmpdir(), 'owner-'));
  after(() => rm(theirs, { recursive: true }));
  await chown(theirs, user, user);
  const path = join(theirs, 'state');
  for (const [uid, gid] of [
    [other, user],
    [user, other],
  ] as const) {
    await writeFile(path, 'old');
    await chmod(path, 0o666);
    await chown(path, uid, gid);
    process.setegid!(user);
    process.seteuid!(user);
    try {
      const why = `cannot save the state in ${path}: .* owner ${uid}, group ${gid} and mode 0666 .*chown ${user}:${user}`;
      await assert.rejects(fileAt(path).write(position, []), new RegExp(why));
    } finally {
      process.seteuid!(0);
      process.setegid!(0);
    }
    assert.equal(await readFile(path, 'utf8'), 'old');
    assert.deepEqual(await readdir(theirs), ['state']);
  }
});

void test('the owner is not set if it is the same', async (t) => {
  const path = join(folder, 'same-owner');
  await writeFile(path, '');
  const file = await open(path);
  const changed = t.mock.method(Object.getPrototypeOf(file) as FileHandle, 'chown');
  await file.close();
  await fileAt(path).write(position, []);
  assert.equal(changed.mock.callCount(), 0);
});

// Otherwise a crash of the machine could bring the old file back.
void test('the folder is synced after the file has its name', async (t) => {
  const path = join(folder, 'synced');
  await writeFile(path, '');
  const before = (await stat(path)).ino;
  const file = await open(path);
  const synced: string[] = [];
  t.mock.method(Object.getPrototypeOf(file) as FileHandle, 'sync', async function (this: FileHandle) {
    const kind = (await this.stat()).isDirectory() ? 'the folder' : 'the file';
    synced.push(`${kind} ${(await stat(path)).ino === before ? 'before' : 'after'}`);
  });
  await file.close();
  await fileAt(path).write(position, []);
  assert.deepEqual(synced, ['the file before', 'the folder after']);
});

const mounts = spawnSync('unshare', ['--mount', 'true']).status === 0;

void test('a file that is mounted cannot be replaced', { skip: !mounts && 'needs the right to mount' }, async () => {
  const path = join(folder, 'mounted');
  await writeFile(path, 'old');
  const program = `
    import { StateFile } from ${JSON.stringify(new URL('../src/state_file.js', import.meta.url).href)};
    await new StateFile(${JSON.stringify(path)}, 1000, {}).write({ epoch: 'e', revision: 1n }, []).catch((e) => console.log(e.message));
  `;
  const script = `mount --bind '${path}' '${path}' && exec '${process.execPath}' --input-type=module --eval "$0"`;
  const output = execFileSync('unshare', ['--mount', 'sh', '-c', script, program], { encoding: 'utf8' });
  assert.match(output, /the file itself is mounted, so it cannot be replaced; mount its folder instead/);
  assert.equal(await readFile(path, 'utf8'), 'old');
});
