//! Writes SVG.

use std::fmt::Write;

/// Colours of outcomes, as in Jepsen's plots.
pub(super) const OK: &str = "#3d8fd1";
pub(super) const FAIL: &str = "#e0218a";
pub(super) const INFO: &str = "#e69500";

/// Returns a text with its marks replaced, for SVG and HTML.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // Other control characters are not allowed in XML.
            control if control.is_control() && control != '\n' => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

/// Converts a number of things that are drawn.
pub(super) fn float(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::INFINITY, f64::from)
}

/// Horizontal position of a text relative to its point.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture that is being drawn. Lengths are pixels.
pub(super) struct Svg {
    width: f64,
    height: f64,
    body: String,
}

impl Svg {
    pub(super) const fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        self.body.write_fmt(element).expect("a string takes all text");
        self.body.push('\n');
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), style: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.add(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" {style}/>"
        ));
    }

    /// Draws a line through points.
    pub(super) fn curve(&mut self, points: &[(f64, f64)], colour: &str) {
        let mut text = String::new();
        for (x, y) in points {
            write!(text, "{x:.1},{y:.1} ").expect("a string takes all text");
        }
        let points = text.trim_end();
        self.add(format_args!(
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>"
        ));
    }

    /// Draws a curved arrow along cubic Bézier points.
    pub(super) fn bow(&mut self, from: (f64, f64), bend: f64, to: (f64, f64), colour: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let (bend1, bend2) = (x1 + bend, x2 + bend);
        self.add(format_args!(
            "<path d=\"M {x1:.1} {y1:.1} C {bend1:.1} {y1:.1} {bend2:.1} {y2:.1} {x2:.1} {y2:.1}\" \
             fill=\"none\" stroke=\"{colour}\" marker-end=\"url(#arrow)\"/>"
        ));
    }

    /// Draws a point with a text that browsers show under the pointer.
    pub(super) fn point(&mut self, (x, y): (f64, f64), colour: &str, title: &str) {
        let title = escaped(title);
        self.add(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2\" fill=\"{colour}\"><title>{title}</title></circle>"
        ));
    }

    pub(super) fn rectangle(&mut self, (x, y): (f64, f64), (width, height): (f64, f64)) {
        self.add(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"4\" \
             fill=\"#f2f6fa\" stroke=\"#555\"/>"
        ));
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escaped(text);
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    pub(super) fn finish(self) -> String {
        let Self { width, height, body } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" font-size=\"11\">\n\
             <defs><marker id=\"arrow\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" \
             markerWidth=\"7\" markerHeight=\"7\" orient=\"auto-start-reverse\">\
             <path d=\"M 0 0 L 10 5 L 0 10 z\" fill=\"#333\"/></marker></defs>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_xml_are_escaped() {
        assert_eq!(escaped("a<b> & \"c\"\u{1}"), "a&lt;b&gt; &amp; &quot;c&quot;\u{fffd}");
    }
}
