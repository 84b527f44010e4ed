//! Kills the process at random instants: everything that was acknowledged is there afterwards.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::history::{History, Receipt, Record, StoreStatus};
use tempfile::tempdir;

use crate::support::{append, child, child_folder, compacted, events, id, meta, open, prompt, settled_status, text};

const KILLS: u64 = 20;
const SESSIONS: u64 = 4;

/// Submits records endlessly, continuing the existing sessions, and prints `session number` for
/// each settled record.
#[test]
fn submitting_child() {
    let Some(folder) = child_folder() else { return };
    let store = open(&folder);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let out = Arc::new(Mutex::new(std::io::stdout()));
    let unsettled = Arc::new(AtomicU64::new(0));
    let mut next = HashMap::new();
    for session in 0..SESSIONS {
        let found = runtime.block_on(store.find(id(&format!("s{session}")))).unwrap();
        next.insert(session, found.map_or(1, |meta| meta.last + 1));
    }
    loop {
        for session in 0..SESSIONS {
            let name = format!("s{session}");
            let number = next[&session];
            next.insert(session, number + 1);
            let size = usize::try_from(number * 7919 % 9000).unwrap();
            let said = match number % 3 {
                0 => prompt(number, &"p".repeat(size)),
                1 => compacted(number),
                _ => text(number, &"t".repeat(size)),
            };
            let (session, entry) = append(meta(&name, number, number), vec![said]);
            let (out, settled) = (Arc::clone(&out), Arc::clone(&unsettled));
            unsettled.fetch_add(1, Ordering::SeqCst);
            let receipt = Receipt::new(move |outcome| {
                outcome.unwrap();
                settled.fetch_sub(1, Ordering::SeqCst);
                // Writing fails once the parent is gone.
                let _ = writeln!(out.lock().unwrap(), "acknowledged {name} {number}");
            });
            store.submit(Record { session, entry, receipt });
        }
        while unsettled.load(Ordering::SeqCst) > 200 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Counted from the start of the process, so some kills hit the opening of the store.
fn random_delay() -> Duration {
    let random = RandomState::new().build_hasher().finish();
    Duration::from_micros(random % 300_000)
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_by_kill_9() {
    let home = tempdir().unwrap();
    let folder = home.path().join("history");
    let mut acknowledged: HashMap<String, u64> = HashMap::new();
    for round in 0..KILLS {
        let mut running = child("crash::submitting_child", &folder).stdout(Stdio::piped()).spawn().unwrap();
        let out = running.stdout.take().unwrap();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(random_delay());
            running.kill().unwrap();
            running
        });
        for line in BufReader::new(out).lines() {
            let line = line.unwrap();
            let Some(rest) = line.strip_prefix("acknowledged ") else { continue };
            // The last line may be torn.
            let Some((session, number)) = rest.split_once(' ') else { continue };
            let last = acknowledged.entry(session.to_owned()).or_default();
            *last = (*last).max(number.parse().unwrap());
        }
        killer.join().unwrap().wait().unwrap();

        let store = open(&folder);
        assert_eq!(settled_status(&store), StoreStatus::Open { moved_aside: None }, "round {round}");
        for (session, last) in &acknowledged {
            let kept = events(&store, session).await;
            let numbers: Vec<u64> = kept.iter().map(|event| event.number).collect();
            assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "round {round}: a gap in {session}");
            assert!(numbers.len() as u64 >= *last, "round {round}: {session} has {}, not {last}", numbers.len());
            let found = store.find(id(session)).await.unwrap().unwrap();
            assert_eq!(found.last, numbers.len() as u64, "round {round}: the summary is of the same batch");
        }
    }
    assert!(acknowledged.values().sum::<u64>() > 100, "{acknowledged:?}");
}
