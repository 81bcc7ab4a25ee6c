// Regular files, which are replaced as a whole.

import { constants, type Stats } from 'node:fs';
import { lstat, open, readlink, realpath, rename, rm, stat, type FileHandle } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';

/** The most links from one to the next that are followed. */
const mostLinks = 40;

/** The path is that of something else, such as a device. */
export class NotRegularError extends Error {}

/** readRegular returns the content of a file, or undefined if there is none. */
export async function readRegular(path: string, maxBytes: number): Promise<Buffer | undefined> {
  if (!(await statRegular(path))) return undefined;
  // The path may have changed since. To open a named pipe must not wait for a writer.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stats = await file.stat();
    checkRegular(stats);
    if (stats.size > maxBytes) throw new Error(`it is larger than ${maxBytes} bytes`);
    return await file.readFile();
  } finally {
    await file.close();
  }
}

/**
 * replaceRegular replaces a file as a whole. A file that exists keeps its mode, owner and group, and stays if a new one cannot
 * have them; a file that did not exist gets the mode 0600. A link stays, and its target is replaced.
 */
export async function replaceRegular(path: string, content: readonly Buffer[]): Promise<void> {
  const old = await statRegular(path);
  const target = await targetOf(path);
  const temporary = `${target}.new`;
  await rm(temporary, { force: true }); // one that was left behind
  try {
    const file = await open(temporary, 'wx', 0o600);
    try {
      if (old) await keepAccess(file, old, target);
      for (const part of content) await file.writeFile(part);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, target);
    await syncFolder(dirname(target));
  } catch (error) {
    await rm(temporary, { force: true });
    if (codeOf(error) !== 'EBUSY') throw error;
    throw new Error('the file itself is mounted, so it cannot be replaced; mount its folder instead', { cause: error });
  }
}

/** statRegular returns what is known of a file, or undefined if there is none. */
async function statRegular(path: string): Promise<Stats | undefined> {
  try {
    const stats = await stat(path);
    checkRegular(stats);
    return stats;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

function checkRegular(stats: Stats): void {
  if (stats.isFile()) return;
  const kinds: [boolean, string][] = [
    [stats.isDirectory(), 'a directory'],
    [stats.isFIFO(), 'a named pipe'],
    [stats.isSocket(), 'a socket'],
  ];
  const kind = kinds.find(([is]) => is)?.[1] ?? 'a device';
  throw new NotRegularError(`it is ${kind}, not a regular file`);
}

/** targetOf follows links, also to a file that does not exist yet. */
async function targetOf(path: string): Promise<string> {
  let target = path;
  for (let n = 0; n < mostLinks; n++) {
    try {
      return await realpath(target);
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') throw error;
    }
    try {
      if (!(await lstat(target)).isSymbolicLink()) return target;
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return target;
      throw error;
    }
    target = resolve(dirname(target), await readlink(target));
  }
  throw new Error('too many links');
}

/** keepAccess gives a new file the owner, group and mode of the old one, which must stay otherwise. */
async function keepAccess(file: FileHandle, old: Stats, path: string): Promise<void> {
  const { uid, gid } = await file.stat();
  try {
    if (uid !== old.uid || gid !== old.gid) await file.chown(old.uid, old.gid);
    await file.chmod(old.mode & 0o777);
  } catch (cause) {
    const mode = (old.mode & 0o777).toString(8).padStart(4, '0');
    throw new Error(
      `a new file cannot get the owner ${old.uid}, group ${old.gid} and mode ${mode} of the old one (${(cause as Error).message}); ` +
        `run the program as the owner, or give it the file: chown ${uid}:${gid} ${path}`,
      { cause },
    );
  }
}

/** syncFolder makes a rename survive a crash of the machine. */
async function syncFolder(path: string): Promise<void> {
  let folder: FileHandle;
  try {
    folder = await open(path, 'r');
  } catch {
    return; // Windows opens no folder, and others only one that the process may read
  }
  try {
    await folder.sync();
  } catch (error) {
    if (codeOf(error) !== 'EINVAL') throw error; // the file system has no such operation
  } finally {
    await folder.close();
  }
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}
