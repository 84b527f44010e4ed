//! Starts the HTTP server with the parts of this program: where its token is kept, its metrics, and
//! how a process that the agent started is recognized.

use std::sync::Arc;

use acpd_actors::Runtime;
use acpd_http::{HttpParts, HttpServer};

use crate::config::Config;
use crate::launch::owner;
use crate::metrics::Metrics;
use crate::paths::Places;

/// Listens if the configuration sets an address. Must be called inside an actix system.
pub fn open(
    places: &Places,
    config: &Config,
    runtime: &Runtime,
    metrics: Arc<Metrics>,
) -> anyhow::Result<Option<HttpServer>> {
    let (daemon, owner) = (std::process::id(), owner(places));
    let parts = HttpParts {
        runtime: runtime.clone(),
        metrics: Arc::new(move |overview, unread| metrics.text(overview, unread)),
        is_own_process: Arc::new(move |pid| {
            Ok(process::descends_from(pid, daemon)? || process::carries_tag(pid, &owner)?)
        }),
        token_file: places.http_token(),
        frame_limit: config.limits.frame,
        outbox_limit: config.limits.outbox,
    };
    Ok(HttpServer::open(&config.http, parts)?)
}
