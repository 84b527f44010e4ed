//! The store on a real disk: what it keeps, in which order, and what it survives.
//!
//! One test binary, one file per topic. Some tests start this binary again as a child process that
//! may be killed or limited; such a child is a test that does nothing unless an environment
//! variable asks for it.

#[cfg(test)]
mod appending;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod durability;
#[cfg(test)]
mod fairness;
#[cfg(test)]
mod full_disk;
#[cfg(test)]
mod listing;
#[cfg(test)]
mod long_jobs;
#[cfg(test)]
mod power_loss;
#[cfg(test)]
mod support;
#[cfg(test)]
mod text_runs;
