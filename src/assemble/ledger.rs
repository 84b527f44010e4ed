//! The ledger of a day's spending, kept in a file of the state folder so that a restart of the daemon does not reset it.

use std::fs;
use std::path::{Path, PathBuf};

use domain::budget::{Day, DayLedger, Ledger, Spending};
use serde::{Deserialize, Serialize};

/// The ledger of all sessions of this daemon. A file that cannot be read or written costs only the memory of a restart.
pub(super) struct FileLedger {
    file: PathBuf,
    day: DayLedger,
}

/// The contents of the file.
#[derive(Serialize, Deserialize)]
struct Stored {
    day: Day,
    tokens: u64,
    cost: f64,
}

impl FileLedger {
    pub(super) fn open(file: PathBuf) -> Self {
        let stored = fs::read(&file).ok().and_then(|bytes| serde_json::from_slice::<Stored>(&bytes).ok());
        let day = match stored {
            Some(Stored { day, tokens, cost }) => DayLedger::starting_with(day, Spending { tokens, cost }),
            None => DayLedger::default(),
        };
        Self { file, day }
    }
}

impl Ledger for FileLedger {
    fn add(&self, spent: Spending) -> Spending {
        let today = self.day.add(spent);
        if spent != Spending::default() {
            let stored = Stored { day: DayLedger::today(), tokens: today.tokens, cost: today.cost };
            let file = self.file.clone();
            tokio::task::spawn_blocking(move || write(&file, &stored));
        }
        today
    }
}

fn write(file: &Path, stored: &Stored) {
    let new = file.with_extension("new");
    let written = serde_json::to_vec(stored).map_err(std::io::Error::from).and_then(|bytes| fs::write(&new, bytes));
    if let Err(error) = written.and_then(|()| fs::rename(&new, file)) {
        tracing::warn!("cannot write {}: {error}", file.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_spent_today_survives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("spending.json");
        write(&file, &Stored { day: DayLedger::today(), tokens: 100, cost: 1.5 });
        assert_eq!(FileLedger::open(file.clone()).add(Spending::default()), Spending { tokens: 100, cost: 1.5 });
        write(&file, &Stored { day: 3, tokens: 100, cost: 1.5 });
        assert_eq!(FileLedger::open(file.clone()).add(Spending::default()), Spending::default());
        fs::write(&file, "nonsense").unwrap();
        assert_eq!(FileLedger::open(file).add(Spending::default()), Spending::default());
    }
}
