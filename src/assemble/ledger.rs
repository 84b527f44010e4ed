//! The ledger of a day's spending, in a file of the state folder: a restart of the daemon does not
//! reset it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use domain::budget::{Costs, Day, DayLedger, Ledger, Spending};
use serde::{Deserialize, Serialize};

/// The ledger of all sessions of this daemon. If the file cannot be read or written, only a restart
/// loses the sum.
pub(super) struct FileLedger(Arc<Inner>);

struct Inner {
    file: PathBuf,
    day: DayLedger,
    /// Held while the file is written. Two concurrent writers would mix their output, and the older
    /// sum could win.
    writing: Mutex<()>,
}

/// The contents of the file.
#[derive(Serialize, Deserialize)]
struct Stored {
    day: Day,
    tokens: u64,
    costs: Costs,
}

impl FileLedger {
    pub(super) fn open(file: PathBuf) -> Self {
        let stored = fs::read(&file).ok().and_then(|bytes| serde_json::from_slice::<Stored>(&bytes).ok());
        let day = match stored {
            Some(Stored { day, tokens, costs }) => DayLedger::starting_with(day, Spending { tokens, costs }),
            None => DayLedger::default(),
        };
        Self(Arc::new(Inner { file, day, writing: Mutex::default() }))
    }
}

impl Ledger for FileLedger {
    fn add(&self, spent: Spending) -> Spending {
        let is_new = spent != Spending::default();
        let today = self.0.day.add(spent);
        if is_new {
            let inner = self.0.clone();
            tokio::task::spawn_blocking(move || inner.save());
        }
        today
    }
}

impl Inner {
    /// Writes the current sum, which may be larger than when the caller requested the write, with
    /// the day it belongs to: the write may come after midnight.
    fn save(&self) {
        let _whole = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let (day, Spending { tokens, costs }) = self.day.total();
        if let Err(error) = write(&self.file, &Stored { day, tokens, costs }) {
            tracing::warn!("cannot write {}: {error}", self.file.display());
        }
    }
}

/// Replaces the file atomically and syncs it: an empty file after a loss of power would lose the
/// sum.
fn write(file: &Path, stored: &Stored) -> io::Result<()> {
    let new = file.with_extension("new");
    let mut open = File::create(&new)?;
    open.write_all(&serde_json::to_vec(stored)?)?;
    open.sync_all()?;
    fs::rename(&new, file)?;
    file.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_spent_today_survives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("spending.json");
        let costs = Costs::of(domain::Cost { amount: 1.5, currency: "USD".to_owned() });
        let spent = Spending { tokens: 100, costs: costs.clone() };
        write(&file, &Stored { day: DayLedger::today(), tokens: 100, costs: costs.clone() }).unwrap();
        assert_eq!(FileLedger::open(file.clone()).add(Spending::default()), spent);
        write(&file, &Stored { day: 3, tokens: 100, costs }).unwrap();
        assert_eq!(FileLedger::open(file.clone()).add(Spending::default()), Spending::default());
        fs::write(&file, "nonsense").unwrap();
        assert_eq!(FileLedger::open(file).add(Spending::default()), Spending::default());
    }

    #[test]
    fn a_sum_that_is_written_after_midnight_stays_with_its_day() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("spending.json");
        let ledger = FileLedger::open(file.clone());
        let yesterday = DayLedger::today() - 1;
        ledger.0.day.add_on(yesterday, Spending { tokens: 7, ..Spending::default() });
        ledger.0.save();
        let stored: Stored = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        assert_eq!((stored.day, stored.tokens), (yesterday, 7));
        assert_eq!(ledger.add(Spending::default()), Spending::default(), "today starts at zero");
    }

    #[test]
    fn writers_at_once_leave_the_whole_sum() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("spending.json");
        let ledger = FileLedger::open(file.clone());
        let spent = |tokens: u64, amount: f64| {
            let costs = Costs::of(domain::Cost { amount, currency: "USD".to_owned() });
            Spending { tokens, costs }
        };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    ledger.0.day.add(spent(1, 0.5));
                    ledger.0.save();
                });
            }
        });
        assert_eq!(FileLedger::open(file).add(Spending::default()), spent(8, 4.0));
    }
}
