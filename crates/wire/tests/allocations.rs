//! Counts the allocations on the way of a streamed piece of text, which most messages are. A count
//! does not depend on the machine, so a regression fails everywhere.
//!
//! The counter sees the whole process, so this file has one test.

#[path = "support/text_stream.rs"]
mod text_stream;

use acpd_wire::ProtocolVersion;
use acpd_wire::frame::Decoder;
use text_stream::{frames, pieces, translator};

#[global_allocator]
static COUNTER: dhat::Alloc = dhat::Alloc;

const PIECES: u64 = 1_000;

/// Returns how many allocations the work makes per piece.
fn per_piece(work: impl FnOnce()) -> f64 {
    let before = dhat::HeapStats::get().total_blocks;
    work();
    (dhat::HeapStats::get().total_blocks - before) as f64 / PIECES as f64
}

#[test]
fn a_piece_of_text_needs_few_allocations() {
    let _counter = dhat::Profiler::builder().testing().build();
    let events = pieces(PIECES);
    let mut sent = Vec::new();
    for (version, limit) in [(ProtocolVersion::V1, 4.0), (ProtocolVersion::V2, 4.0)] {
        let mut translator = translator(version);
        let translated = per_piece(|| sent = frames(&mut translator, &events));
        assert_eq!(sent.len() as u64, PIECES);
        println!("{version:?}: {translated} allocations per piece");
        assert!(translated <= limit, "{version:?}: {translated}");
    }
    let bytes = sent.concat();
    let mut received = 0;
    let split = per_piece(|| {
        let mut decoder = Decoder::new(1 << 20);
        for part in bytes.chunks(64 << 10) {
            decoder.push(part);
            while let Some(frame) = decoder.next() {
                received += u64::from(frame.is_ok());
            }
        }
    });
    assert_eq!(received, PIECES);
    println!("{split} allocations per frame that is read");
    assert!(split <= 0.1, "{split}");
}
