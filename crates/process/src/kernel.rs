//! Reports whether the kernel supports the sandbox, for checks of an installation.

use std::thread;

use landlock::{Access, AccessFs, CompatLevel, Compatible, LandlockStatus, Ruleset, RulesetAttr};

/// Whether commands can run in `sandbox` mode on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LandlockSupport {
    /// Available, with this ABI version.
    Enough(u32),
    TooOld(u32),
    SwitchedOff,
    Missing,
}

/// Asks the kernel. The query restricts the calling thread, so it runs on a new thread that then
/// ends.
pub fn landlock_support() -> LandlockSupport {
    let asked = thread::spawn(|| {
        let ruleset = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
        let ruleset = ruleset.handle_access(AccessFs::from_all(super::sandbox::NEEDED)).ok()?.create().ok()?;
        ruleset.restrict_self().ok().map(|status| status.landlock)
    });
    match asked.join() {
        Ok(Some(LandlockStatus::Available { effective_abi, kernel_abi })) => {
            let version = kernel_abi.and_then(|version| u32::try_from(version).ok()).unwrap_or(effective_abi as u32);
            if effective_abi >= super::sandbox::NEEDED {
                LandlockSupport::Enough(version)
            } else {
                LandlockSupport::TooOld(version)
            }
        }
        Ok(Some(LandlockStatus::NotEnabled)) => LandlockSupport::SwitchedOff,
        Ok(Some(_) | None) | Err(_) => LandlockSupport::Missing,
    }
}
