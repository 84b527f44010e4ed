//! Child agents: programs that speak the Agent Client Protocol and answer sessions in place of the
//! native engine.
//!
//! acpd is their client. A child runs under `acpd __run`, one per session unless it is shared, and
//! ends with its session. This crate speaks the protocol with it, serves its requests for files and
//! terminals, and reports everything else in terms of the domain. The session decides what is
//! recorded, shown and asked.
//!
//! ```text
//! Session --AgentLink--> ChildProtocol --lines--> child's standard input
//!         <--reports----               <--lines-- child's standard output
//!                        Services: files and terminals, of the editor or of acpd
//! ```

mod child;
mod child_protocol;
mod files;
mod hosts;
mod link;
mod probe;
mod services;
mod settings;
mod shared;
mod stderr;
mod terminals;

pub use hosts::{AgentHostSettings, HostedAgents, PipedAgents};
pub use probe::Probe;
pub use settings::{AgentSettings, AgentsSettings, NATIVE, WorkingFolder};
