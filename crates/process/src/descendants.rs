//! Finds the descendants of this process in /proc and signals them. Also kills what is left of a
//! command whose helper was killed.

use std::collections::{HashMap, HashSet};
use std::fs;

use rustix::process::{Pid, Signal};

use crate::proc_stat;
use crate::tag::ProcessTag;

/// Sends a signal to every descendant.
pub(super) fn signal(signal: Signal) {
    for pid in descendants() {
        send(pid, signal);
    }
}

pub(super) fn count() -> usize {
    descendants().len()
}

/// Stops and kills every descendant, group by group. The kernel delivers a signal to a whole group
/// at once, including a child that is just being forked. A stopped group therefore cannot grow,
/// however fast its processes replaced each other, and only processes that moved to another group
/// in the meantime remain to be found.
pub(super) fn kill_all() {
    let own = rustix::process::getpgrp().as_raw_nonzero().get().unsigned_abs();
    let mut stopped = HashSet::new();
    let mut stragglers = HashSet::new();
    // If the tree still grows after this many rounds, the caller's next pass handles it.
    for _ in 0..50 {
        let mut found_more = false;
        for pid in descendants() {
            // A process that has ended in the meantime can be skipped.
            let Ok(stat) = proc_stat::of(pid) else { continue };
            if stat.group == own {
                // The process has joined the helper's own group, which cannot be killed as a whole.
                if stragglers.insert(pid) {
                    send(pid, Signal::STOP);
                    found_more = true;
                }
            } else if !stat.is_dead && stopped.insert(stat.group) {
                send_group(stat.group, Signal::STOP);
                found_more = true;
            }
        }
        if !found_more {
            break;
        }
    }
    stopped.into_iter().for_each(|group| send_group(group, Signal::KILL));
    stragglers.into_iter().for_each(|pid| send(pid, Signal::KILL));
}

/// Kills what is left of a command whose helper is dead: every process of the helper's session, and
/// every process with this start in its tag. The helper must not be reaped yet, so that its process
/// id cannot have been reused.
pub(super) fn kill_leftovers(helper: u32, start: &str) {
    let is_left = |pid: &u32| {
        let Ok(stat) = proc_stat::of(*pid) else { return false };
        let has_mark = || ProcessTag::of(*pid).is_ok_and(|tag| tag.is_some_and(|tag| tag.start == start));
        *pid != helper && !stat.is_dead && (stat.session == helper || has_mark())
    };
    // Processes that fork in the meantime are found in the next round.
    for _ in 0..50 {
        let left: Vec<_> = proc_stat::all_pids().into_iter().flatten().filter(is_left).collect();
        if left.is_empty() {
            return;
        }
        for pid in left {
            send(pid, Signal::KILL);
        }
    }
}

fn descendants() -> Vec<u32> {
    // Kernels without CONFIG_PROC_CHILDREN have no such file; then all of /proc is read.
    let parents = if fs::exists("/proc/thread-self/children").unwrap_or(false) { None } else { Some(parents()) };
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut waiting = vec![std::process::id()];
    while let Some(pid) = waiting.pop() {
        let children = match &parents {
            None => children(pid),
            Some(parents) => parents.get(&pid).cloned().unwrap_or_default(),
        };
        for child in children {
            if seen.insert(child) {
                found.push(child);
                waiting.push(child);
            }
        }
    }
    found
}

fn children(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    // The children of a process that ended in the meantime have become ours, and the next walk
    // finds them.
    for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        found.extend(text.split_ascii_whitespace().filter_map(|child| child.parse::<u32>().ok()));
    }
    found
}

fn parents() -> HashMap<u32, Vec<u32>> {
    let mut families: HashMap<u32, Vec<u32>> = HashMap::new();
    for pid in proc_stat::all_pids().into_iter().flatten() {
        if let Ok(stat) = proc_stat::of(pid) {
            families.entry(stat.parent).or_default().push(pid);
        }
    }
    families
}

/// Sends a signal to one process. Ignores an error: if the process still runs, the next walk finds
/// it.
fn send(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Sends a signal to a whole group. Such a group contains only descendants of the helper: a process
/// must be in the group's session, and every session below the helper was created there.
fn send_group(group: u32, signal: Signal) {
    if let Some(group) = i32::try_from(group).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, signal);
    }
}
