//! PDFs and images for tests, including PDFs that are made to harm their reader.

/// An image of 4000 x 200 white pixels, as a PNG in base64.
pub const WIDE_IMAGE: &str = "iVBORw0KGgoAAAANSUhEUgAAD6AAAADIAQAAAADU6yNxAAABRElEQVR42u3RMQEAAAzCMPybBhd7lkpoUr0rFkAXdEEXdEEXdEEXdEEXdEEXdEEXdEEXdEGHLuiCLuiCLuiCLuiCLuiCLuiCLuiCLuiCDl3QBV3QBV3QBV3QBV3QBV3QBV3QBV3QBR26oAu6oAu6oAu6oAu6oAu6oAu6oAu6oAs6dEEXdEEXdEEXdEEXdEEXdEEXdEEXdEEXdOgWQBd0QRd0QRd0QRd0QRd0QRd0QRd0QRd0QYcu6IIu6IIu6IIu6IIu6IIu6IIu6IIu6IIOXdAFXdAFXdAFXdAFXdAFXdAFXdAFXdAFHbqgC7qgC7qgC7qgC7qgC7qgC7qgC7qgCzp0QRd0QRd0QRd0QRd0QRd0QRd0QRd0QRd06BZAF3RBF3RBF3RBF3RBF3RBF3RBF3RBF3RBhy7ogi7ogi7ogi7ogq7bBk8uMCy/SKKnAAAAAElFTkSuQmCC";

/// Four gigabytes of spaces, compressed three times with zlib, in hexadecimal digits.
const BOMB: &str = "78daabb8f5f6ce42a3a78932c71f267b309949343a94b04797c9b88a9d700bec910c4c3e9e137ecef50deb0e06df2b6fbcf41c84549e3d8839f6ffb3cdcbb3fb7fcc2db713f7d72fdfef1ebfce4c5dfe7676bdb83b0303c38103b17ff7cf9bffbb2ec74ffefb377e4606868685d6717151337a99debbbfde7d0e28c0d0fcfdf9f5f3536ff2375e3fbd99f53950a0e160746db5dcf96d0dbf5fbeed67fe0e16f9ad2e01a419349b403a2e288139ba608e803212675466546654665466546654665466546654665466546654665466546654665466546654665466546654665466546654665486163293b73f9ffd5e33e18f41adcd4dc98ba576e555bb377ee5bc6cb7e41b00ae610420";

/// Returns a PDF with one line of text per page.
pub fn pdf(pages: &[&str]) -> Vec<u8> {
    let kids: Vec<String> = (0..pages.len()).map(|at| format!("{} 0 R", 4 + 2 * at)).collect();
    let mut objects: Vec<Vec<u8>> = vec![
        "<</Type/Catalog/Pages 2 0 R>>".into(),
        format!("<</Type/Pages/Kids[{}]/Count {}>>", kids.join(" "), pages.len()).into(),
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>".into(),
    ];
    for (at, page) in pages.iter().enumerate() {
        let resources = "/Resources<</Font<</F 3 0 R>>>>";
        let content = 5 + 2 * at;
        let page_object =
            format!("<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents {content} 0 R{resources}>>");
        objects.push(page_object.into());
        objects.push(stream("", format!("BT /F 12 Tf 50 700 Td ({page}) Tj ET").as_bytes()));
    }
    file(&objects)
}

/// Returns a PDF whose page draws a form that draws itself, which overflows the stack of a reader.
pub fn endless_pdf() -> Vec<u8> {
    let form = "/Type/XObject/Subtype/Form/BBox[0 0 1 1]/Resources<</XObject<</F 5 0 R>>>>";
    file(&[
        "<</Type/Catalog/Pages 2 0 R>>".into(),
        "<</Type/Pages/Kids[3 0 R]/Count 1>>".into(),
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R/Resources<</XObject<</F 5 0 R>>>>>>".into(),
        stream("", b"/F Do"),
        stream(form, b"/F Do"),
    ])
}

/// Returns a PDF of one kilobyte whose page takes four gigabytes when it is decompressed.
pub fn swelling_pdf() -> Vec<u8> {
    let bomb: Vec<u8> =
        (0..BOMB.len()).step_by(2).map(|at| u8::from_str_radix(&BOMB[at..at + 2], 16).unwrap()).collect();
    file(&[
        "<</Type/Catalog/Pages 2 0 R>>".into(),
        "<</Type/Pages/Kids[3 0 R]/Count 1>>".into(),
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R/Resources<<>>>>".into(),
        stream("/Filter[/FlateDecode/FlateDecode/FlateDecode]", &bomb),
    ])
}

fn stream(facts: &str, content: &[u8]) -> Vec<u8> {
    let head = format!("<<{facts}/Length {}>>stream\n", content.len());
    [head.as_bytes(), content, b"\nendstream"].concat()
}

/// Builds a file from its objects, the catalogue first.
fn file(objects: &[Vec<u8>]) -> Vec<u8> {
    let mut file = b"%PDF-1.4\n".to_vec();
    let mut table = format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1);
    for (object, number) in objects.iter().zip(1..) {
        table.push_str(&format!("{:010} 00000 n \n", file.len()));
        file.extend([format!("{number} 0 obj\n").as_bytes(), object, b"\nendobj\n"].concat());
    }
    let (start, count) = (file.len(), objects.len() + 1);
    file.extend(table.as_bytes());
    file.extend(format!("trailer\n<</Size {count}/Root 1 0 R>>\nstartxref\n{start}\n%%EOF").as_bytes());
    file
}
