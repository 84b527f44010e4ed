//! What a streamed piece of text costs on the wire: its translation into a frame, and reading
//! frames.
//!
//! Run with `cargo bench -p acpd-wire`. The floor copies the same bytes.

#[path = "../tests/support/text_stream.rs"]
mod text_stream;

use std::hint::black_box;
use std::io::{self, Write};
use std::time::Instant;

use acpd_wire::ProtocolVersion;
use acpd_wire::frame::Decoder;
use bytes::BytesMut;
use text_stream::{frames, pieces, translator};

const PIECES: u64 = 100_000;

/// Returns the nanoseconds per piece: the best of ten runs, because other programs only add time.
fn nanoseconds(mut work: impl FnMut()) -> f64 {
    let run = |_| {
        let started = Instant::now();
        work();
        started.elapsed().as_nanos() as f64 / PIECES as f64
    };
    (0..10).map(run).fold(f64::MAX, f64::min)
}

fn main() -> io::Result<()> {
    let mut out = io::stdout();
    let events = pieces(PIECES);
    let mut sent = Vec::new();
    for version in [ProtocolVersion::V1, ProtocolVersion::V2] {
        let time = nanoseconds(|| sent = frames(&mut translator(version), &events));
        writeln!(out, "translation and framing, {version:?}: {time:.0} ns per piece")?;
    }
    let bytes = sent.concat();
    let read = nanoseconds(|| {
        let mut decoder = Decoder::new(1 << 20);
        for part in bytes.chunks(64 << 10) {
            decoder.push(part);
            while let Some(frame) = decoder.next() {
                black_box(&frame);
            }
        }
    });
    let floor = nanoseconds(|| {
        let mut copy = BytesMut::new();
        for part in bytes.chunks(64 << 10) {
            copy.clear();
            copy.extend_from_slice(part);
            black_box(&copy);
        }
    });
    writeln!(out, "reading frames: {read:.0} ns per frame (floor, a copy: {floor:.0} ns)")
}
