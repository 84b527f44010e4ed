//! Events that a receipt calls synced survive the loss of power.
//!
//! A copy stands in for the disk: each sync copies the database's file, so nothing that is written
//! later is in the copy. Opening the copy simulates the loss of power. Of sled's other files, only
//! its parameters are copied, which sled syncs itself when it creates the store.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex};

use acpd_history::{Store, StoreSettings, SyncFile};
use domain::history::CommitLevel;
use tempfile::tempdir;

use crate::support::{append, compacted, events, keep, meta, open, prompt, text};

/// The database's file as a disk would have it after power was lost.
type Image = Arc<Mutex<Vec<u8>>>;

fn recording(folder: &Path) -> (Store, Image) {
    let image = Image::default();
    let disk = Arc::clone(&image);
    let path = folder.join("db");
    let sync = SyncFile::new(move |_: &File| {
        let mut bytes = Vec::new();
        File::open(&path)?.read_to_end(&mut bytes)?;
        *disk.lock().unwrap() = bytes;
        Ok(())
    });
    (Store::open(folder.to_owned(), StoreSettings { sync, ..StoreSettings::default() }), image)
}

/// Opens the store as it is after the power is back.
fn after_power_loss(original: &Path, image: &Image, folder: &Path) -> Store {
    fs::create_dir_all(folder).unwrap();
    fs::copy(original.join("conf"), folder.join("conf")).unwrap();
    fs::write(folder.join("db"), &*image.lock().unwrap()).unwrap();
    open(folder)
}

#[tokio::test]
async fn everything_that_a_receipt_calls_synced_survives_the_loss_of_power() {
    let home = tempdir().unwrap();
    let folder = home.path().join("history");
    let (store, image) = recording(&folder);
    let mut expected = Vec::new();
    for round in 0..8 {
        // Text and a written event come before, and are not waited for.
        let first = 3 * round + 1;
        let records = [text(first, &"words ".repeat(300)), compacted(first + 1), prompt(first + 2, "a prompt")];
        let durability = records.clone().map(|event| {
            let number = event.number;
            keep(&store, append(meta("a", number, number), vec![event])).unwrap()
        });
        assert_eq!(durability[2], CommitLevel::Synced);
        expected.extend(records);
        // Events of another session that are only written may be lost, but synced ones must not be
        // lost with them.
        keep(&store, append(meta("b", first, first), vec![compacted(first)])).unwrap();
        let back = after_power_loss(&folder, &image, &home.path().join(format!("after-{round}")));
        assert_eq!(events(&back, "a").await, expected, "after round {round}");
    }
}

#[tokio::test]
async fn written_records_are_neither_synced_nor_reported_as_synced() {
    let home = tempdir().unwrap();
    let folder = home.path().join("history");
    let (store, image) = recording(&folder);
    keep(&store, append(meta("a", 1, 1), vec![prompt(1, "x")])).unwrap();
    assert_eq!(keep(&store, append(meta("a", 2, 2), vec![compacted(2)])), Ok(CommitLevel::Written));
    let back = after_power_loss(&folder, &image, &home.path().join("after"));
    assert_eq!(events(&back, "a").await, [prompt(1, "x")], "the image is of the last sync");
}
