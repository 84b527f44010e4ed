//! Measures how the figures grow with the number of streams, sessions, clients, and turns of a
//! session.

use std::time::Instant;

use crate::client::Client;
use crate::model_server::Direction;
use crate::report::{Plot, Report, median};
use crate::rows::{side_by_side, time_to_model, timed_load};
use crate::world::{BenchHome, cpu_seconds, next_prompt, resident};

pub(crate) fn measure(report: &mut Report) {
    report.section("growth: streams", streams);
    report.section("growth: sessions", sessions);
    report.section("growth: clients", clients);
    report.section("growth: history", history);
    report.section("growth: turns", turns);
}

/// Plots the combined rate of all streams.
fn streams(report: &mut Report) {
    let world = BenchHome::new();
    let points = [1, 2, 4, 8, 16, 32].map(|count| {
        let burst = Direction::Stream { pieces: 384_000 / count, bytes: 16 };
        (count as f64, side_by_side(&world, count, 1, burst).rate())
    });
    report.plot(Plot::new("streams", "streams at once", "thousand chunks/s together", &points));
}

/// Plots the daemon's memory against the number of open sessions, each after one prompt.
fn sessions(report: &mut Report) {
    let world = BenchHome::new();
    let (mut client, first) = world.editor();
    let pid = world.daemon_pid();
    let short = Direction::Stream { pieces: 10, bytes: 16 };
    client.prompt(&first, short, next_prompt());
    let folder = world.work().to_str().unwrap().to_owned();
    let mut open = 1;
    let points = [1, 25, 50, 100, 150, 200].map(|count| {
        while open < count {
            let session = client.open(&folder);
            client.prompt(&session, short, next_prompt());
            open += 1;
        }
        (count as f64, resident(pid))
    });
    report.plot(Plot::new("sessions", "open sessions", "MB resident", &points));
}

/// Plots the combined rate at which all clients of one session receive its stream.
fn clients(report: &mut Report) {
    let world = BenchHome::new();
    let points = [1, 2, 4, 8, 16].map(|count| {
        let (mut sender, session) = world.editor();
        let watchers: Vec<_> = (1..count)
            .map(|_| {
                let (mut client, _) = Client::start(world.acpd(&["acp"]));
                let parameters = serde_json::json!({ "sessionId": session, "cwd": world.work(), "mcpServers": [] });
                client.call("session/load", parameters);
                client
            })
            .collect();
        let started = Instant::now();
        let pieces = 40_000;
        let reading: Vec<_> =
            watchers.into_iter().map(|mut client| std::thread::spawn(move || client.read_text(pieces * 16))).collect();
        sender.prompt(&session, Direction::Stream { pieces, bytes: 16 }, next_prompt());
        reading.into_iter().for_each(|thread| thread.join().unwrap());
        (count as f64, (count * pieces) as f64 / started.elapsed().as_secs_f64() / 1e3)
    });
    report.plot(Plot::new("clients", "clients of one session", "thousand chunks/s received together", &points));
}

/// Plots the time to load a session against the length of its history.
fn history(report: &mut Report) {
    let world = BenchHome::new();
    let (mut client, session) = world.editor();
    let mut chunks = 0;
    let points = [25, 50, 100, 200, 400].map(|thousands| {
        let more = Direction::Stream { pieces: thousands * 1000 - chunks, bytes: 16 };
        client.prompt(&session, more, next_prompt());
        chunks = thousands * 1000;
        (thousands as f64, median((0..3).map(|_| timed_load(&world, &mut client, &session)).collect()))
    });
    report.plot(Plot::new("history", "thousand chunks", "ms to load the session", &points));
}

/// Plots the time from the prompt to the model's request while the conversation grows by 10 KB per
/// turn.
fn turns(report: &mut Report) {
    let world = BenchHome::new();
    let (mut client, session) = world.editor();
    let pid = world.daemon_pid();
    let answer = Direction::Stream { pieces: 20, bytes: 512 };
    let mut done = 0;
    let points = [1, 100, 250, 500, 1000].map(|count| {
        while done < count {
            client.prompt(&session, answer, next_prompt());
            done += 1;
        }
        (count as f64, median((0..7).map(|_| time_to_model(&world, &mut client, &session, answer)).collect()))
    });
    let after = points[points.len() - 1].1;
    report.row("prompt to model asked after 1,000 turns (10 MB), median", after, None, "ms", "8 ms");
    report.row("processor time of the daemon for these 1,000 turns", cpu_seconds(pid), None, "s", "");
    report.plot(Plot::new("turns", "turns of 10 KB", "ms from prompt to model", &points));
}
