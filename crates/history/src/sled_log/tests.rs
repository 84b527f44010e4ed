//! Tests that the reader reads everything that sled wrote, and that no bytes make it panic.

use std::collections::BTreeMap;
use std::fs;

use proptest::prelude::*;
use tempfile::tempdir;

use super::*;
use crate::database::Database;
use crate::store::StoreSettings;

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

fn contents(folder: &Path, prefix: &[u8]) -> Contents {
    let mut found = Vec::new();
    let log = SledLog::open(folder).unwrap();
    log.scan(prefix, |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        Ok(())
    })
    .unwrap();
    assert!(found.is_sorted_by(|a, b| a.0 < b.0), "the keys come in order and once");
    found.into_iter().collect()
}

/// A key that shares beginnings with others, as ours do.
fn key(choice: u16) -> Vec<u8> {
    format!("{}{:03}", ["e-session-", "e-session-long-", "m", "t"][usize::from(choice % 4)], choice % 300).into_bytes()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    /// Whatever sled has done (sets, deletions, splits, merges, reused segments), this reads what
    /// sled reads.
    #[test]
    fn an_undamaged_log_is_read_as_sled_reads_it(
        seed in proptest::collection::vec((any::<u16>(), any::<bool>(), 0..2000_usize), 1..400),
        rounds in 1..12_u16,
    ) {
        let home = tempdir().unwrap();
        let folder = home.path().join("db");
        let mut expected = Contents::new();
        for round in 0..rounds {
            let db = Database::open(&folder, &StoreSettings::default()).unwrap().db;
            let mut batch = sled::Batch::default();
            for (choice, is_set, len) in &seed {
                let key = key(choice.wrapping_mul(round + 1));
                if *is_set || round % 2 == 0 {
                    let value = vec![u8::try_from(round).unwrap(); *len];
                    batch.insert(key.as_slice(), value.as_slice());
                } else {
                    batch.remove(key);
                }
            }
            db.apply_batch(batch).unwrap();
            db.flush().unwrap();
            expected = db.iter().map(|entry| entry.unwrap()).map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        }
        prop_assert_eq!(contents(&folder, b""), expected.clone());
        let sessions = expected.into_iter().filter(|(key, _)| key.starts_with(b"e-session-l")).collect::<Contents>();
        prop_assert_eq!(contents(&folder, b"e-session-l"), sessions);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..3000)) {
        let home = tempdir().unwrap();
        fs::write(home.path().join("db"), &bytes).unwrap();
        prop_assert_eq!(contents(home.path(), b""), Contents::new());
        let _ = (Leaf::parse(&bytes, 0), PageLink::parse(&bytes));
    }
}

#[test]
fn a_file_that_looks_like_endless_messages_is_given_up_soon() {
    let home = tempdir().unwrap();
    // At every sixth byte a header of a node of 100,000 bytes begins, and no checksum is right.
    let bytes: Vec<u8> = [8, 250, 0xa0, 0x86, 1, 0].into_iter().cycle().take(2 << 20).collect();
    fs::write(home.path().join("db"), bytes).unwrap();
    assert_eq!(contents(home.path(), b""), Contents::new());
}
