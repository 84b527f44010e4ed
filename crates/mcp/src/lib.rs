//! MCP servers: tools, prompts and resources of other programs, for the sessions that want them.
//!
//! A session's servers are those that its editor passed, those of the user's configuration and, where the user trusts the
//! folder, those of the project (`group`). Sessions share a server only if nothing about it differs (`key`). All talking
//! happens on a thread of its own (`runtime`); `link` is what both sides see of a server, and `keeping` connects it and
//! tries again. Programs run under `run`, so that nothing of them outlives the last session that wants them.

mod bounded_transport;
mod client_handler;
mod host;
mod lenient;
mod limited_http;
mod link;
mod names;
mod offer;
mod project_file;
mod prompt_context;
mod prompts;
mod remote;
mod runtime;
mod server_group;
mod server_key;
mod server_log;
mod settings;
mod stdio;
mod stored_servers;
mod supervisor;
mod tool_call;
mod tool_result;

pub use host::McpHost;
pub use names::PREFIX;
pub use settings::{HostSettings, McpSettings, ServerSettings};
