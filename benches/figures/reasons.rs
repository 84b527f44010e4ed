//! Why goals are missed: a text for each row that may miss its goal. docs/performance.md shows
//! those of the rows that missed their goals in its run.

use std::fmt::Write as _;

struct Reason {
    /// The names of the rows that it explains.
    rows: &'static [&'static str],
    title: &'static str,
    text: &'static str,
}

const REASONS: [Reason; 10] = [
    Reason {
        rows: &["spawn to `initialize`, daemon running, median"],
        title: "Start",
        text: "`acpd acp` loads acpd, which then replaces itself with the small program of the bridge. \
               Loading acpd at a random address takes about 1 ms; a fixed address would be faster but less safe.",
    },
    Reason {
        rows: &["the same with no daemon, median"],
        title: "Start without a daemon",
        text: "acpd is loaded three times: for the bridge, to detach the daemon, and as the daemon.",
    },
    Reason {
        rows: &["prompt to model asked, median", "the same, Anthropic dialect"],
        title: "Prompt to model",
        text: "each prompt waits for one disk sync and reads the notes, memory and skills of the user and \
               the project, so that edits take effect at once.",
    },
    Reason {
        rows: &["prompt to model asked after 1,000 turns (10 MB), median"],
        title: "Prompt to model after 1,000 turns",
        text: "the whole conversation is read twice: to count its bytes with their escapes, because a request \
               begins with its length, and to encode it while the kernel copies it on both sides of the \
               socket. Keeping the encoded bytes of earlier messages would avoid both but double the memory \
               of a session. The bench turns summaries off; by default they keep a conversation below 0.8 MB, \
               a tenth of this one.",
    },
    Reason {
        rows: &["chunk latency, 100 streams, median", "chunk latency, 100 streams, 99th percentile"],
        title: "100 streams",
        text: "model server, daemon, ten bridges and ten clients share the cores.",
    },
    Reason {
        rows: &["longest wait from the last text to the answer, 50 streams"],
        title: "Longest wait after the last text, 50 streams",
        text: "the end of a turn is synced after the text that all streams have sent before it. It took 10 \
               to 85 ms in three runs.",
    },
    Reason {
        rows: &[
            "bytes written per byte of text, chunks of 4 B",
            "bytes stored per byte of text, chunks of 4 B",
            "bytes written per byte of text, chunks of 1 to 12 B",
            "bytes stored per byte of text, chunks of 1 to 12 B",
            "bytes written per byte of text, chunks of 40 B",
            "bytes stored per byte of text, chunks of 40 B",
        ],
        title: "Bytes written and stored",
        text: "the lengths of the chunks are stored, so that a client can resume in the middle; lengths \
               that repeat are stored once. sled rewrites a page that has changed often, and keeps replaced \
               pages until it reuses their segment.",
    },
    Reason {
        rows: &[
            "daemon resident, after one stream of 100,000 chunks",
            "daemon resident, after 50 streams of 10,000 chunks at once",
            "daemon resident, a minute later without clients",
        ],
        title: "Resident memory of the daemon",
        text: "25 MB are pages of the program's file. Of the heap, 26 MB are in use after 50 streams \
               (counted with heaptrack): 11 MB are the text of the 51 sessions, which stay in memory for ten \
               minutes after their last client has detached, 9 MB are pages that sled keeps, and 2 MB are \
               buffers of connections to the model. The rest is fragmentation: free memory between pieces \
               that are in use. The C library returns 16 MB of it only on request (`malloc_trim`), which \
               needs unsafe code, and acpd has none. A smaller cache of sled changes nothing. jemalloc and \
               mimalloc were tried: after 50 streams they kept 24 and 42 MB more, and a minute later 10 and \
               40 MB more.",
    },
    Reason {
        rows: &["bridge resident", "bridge private"],
        title: "Memory of the bridge",
        text: "stacks and buffers of two threads, and relocated data of the C library.",
    },
    Reason {
        rows: &["program"],
        title: "Program",
        text: "it contains an HTTP server and client, TLS, MCP, terminal rendering, syntax definitions, and \
               PDF and image readers. 25 MB are code, compiled for size except on the path of a chunk: 5 MB \
               of acpd's own, and the rest of 500 crates, none of which takes more than 2 MB besides the \
               standard library. A full build takes 570 s of processor time, nearly 5 minutes on two idle \
               cores.",
    },
];

/// Writes the section about these rows, which missed their goals. It is empty if there are none.
pub(crate) fn section(missed: &[String]) -> String {
    if missed.is_empty() {
        return String::new();
    }
    let mut section = "## Why a goal is missed\n\n".to_owned();
    let explains = |reason: &Reason, row: &String| reason.rows.contains(&row.as_str());
    for reason in REASONS.iter().filter(|reason| missed.iter().any(|row| explains(reason, row))) {
        section += &item(&format!("**{}**: {}", reason.title, reason.text));
    }
    for row in missed.iter().filter(|row| !REASONS.iter().any(|reason| explains(reason, row))) {
        section += &item(&format!("**{row}**: not known. Other runs held this goal; the machine may have been busy."));
    }
    section
}

/// Writes an item of a list, wrapped at 100 columns.
fn item(text: &str) -> String {
    let mut item = String::new();
    let mut line = "-".to_owned();
    for word in text.split(' ') {
        if line.len() + 1 + word.len() > 100 {
            writeln!(item, "{line}").unwrap();
            line = " ".to_owned();
        }
        write!(line, " {word}").unwrap();
    }
    item + &line + "\n"
}

/// Checks that a section explains exactly the rows that missed their goals.
pub(crate) fn check() {
    assert_eq!(section(&[]), "");
    let rows = ["program", "the same, Anthropic dialect", "prompt to model asked, median", "a row without a reason"];
    let section = section(&rows.map(str::to_owned));
    let items: Vec<&str> = section.lines().filter(|line| line.starts_with("- ")).collect();
    let begins =
        ["- **Prompt to model**: each prompt ", "- **Program**: it ", "- **a row without a reason**: not known."];
    assert!(items.len() == 3 && items.iter().zip(begins).all(|(item, begin)| item.starts_with(begin)), "{section}");
    assert!(section.lines().all(|line| line.len() <= 100), "{section}");
}
