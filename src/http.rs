//! Starts the HTTP server with this program's token file and metrics, and with the check for
//! processes that the agent started.

use std::sync::Arc;

use acpd_actors::Runtime;
use acpd_http::{HttpParts, HttpServer};

use crate::config::Config;
use crate::launch::owner;
use crate::metrics::Metrics;
use crate::paths::Paths;

/// Starts the server if the configuration sets an address. Must be called inside an actix system.
pub fn open(
    paths: &Paths,
    config: &Config,
    runtime: &Runtime,
    metrics: Arc<Metrics>,
) -> anyhow::Result<Option<HttpServer>> {
    let (daemon, owner) = (std::process::id(), owner(paths));
    let parts = HttpParts {
        runtime: runtime.clone(),
        metrics: Arc::new(move |overview, unread| metrics.text(overview, unread)),
        is_own_process: Arc::new(move |pid| {
            Ok(process::descends_from(pid, daemon)? || process::carries_tag(pid, &owner)?)
        }),
        token_file: paths.http_token(),
        frame_limit: config.limits.frame,
        outbox_limit: config.limits.outbox,
    };
    Ok(HttpServer::open(&config.http, parts)?)
}
