//! `read_file` with PDFs and large images, which a helper process converts.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::ToolContent;
use domain::tool::OutcomeKind;
use serde_json::json;
use testkit::documents::{WIDE_IMAGE, endless_pdf, pdf, swelling_pdf};

use crate::Bench;
use crate::host::call;

pub(crate) async fn a_pdf_is_read_as_numbered_lines_of_its_text() {
    let bench = Bench::new();
    fs::write(bench.folder.path().join("report.pdf"), pdf(&["The report.", "The end."])).unwrap();
    let outcome = call(&bench.registry, &bench.site, "read_file", json!({"path": "report.pdf"})).await;
    let lines = "     1\t[page 1]\n     2\tThe report.\n     3\t[page 2]\n     4\tThe end.\n";
    assert_eq!(outcome.text, format!("{lines}[the text of a PDF, without its pictures and its layout]"));
    let input = json!({"path": "report.pdf", "offset": 4, "limit": 1});
    let part = call(&bench.registry, &bench.site, "read_file", input).await;
    assert!(part.text.starts_with("     4\tThe end.\n"), "{}", part.text);
}

pub(crate) async fn a_pdf_that_is_made_to_harm_its_reader_harms_only_the_helper() {
    let bench = Bench::new();
    for (name, file) in
        [("endless.pdf", endless_pdf()), ("swelling.pdf", swelling_pdf()), ("torn.pdf", b"%PDF-1.4\nxref".to_vec())]
    {
        fs::write(bench.folder.path().join(name), file).unwrap();
        let outcome = call(&bench.registry, &bench.site, "read_file", json!({"path": name})).await;
        assert_eq!(outcome.verdict, OutcomeKind::Failed, "{name}: {}", outcome.text);
        assert!(outcome.text.starts_with(&format!("{name} is a PDF document, ")), "{}", outcome.text);
    }
}

pub(crate) async fn a_large_image_is_scaled_before_it_is_shown() {
    let bench = Bench::new();
    fs::write(bench.folder.path().join("wide.png"), STANDARD.decode(WIDE_IMAGE).unwrap()).unwrap();
    let outcome = call(&bench.registry, &bench.site, "read_file", json!({"path": "wide.png"})).await;
    assert!(outcome.text.contains("(image/png, 4000 x 200 pixels, ") && outcome.text.ends_with("), scaled down."));
    let [ToolContent::Image { data, mime }] = &outcome.content[..] else { panic!("{outcome:?}") };
    let image = attachments::read_header(&STANDARD.decode(data).unwrap()).unwrap();
    assert_eq!((mime.as_str(), image.pixels), ("image/png", Some((3072, 154))));
}
