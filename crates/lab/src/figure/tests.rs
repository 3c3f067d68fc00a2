use super::*;

fn example() -> Figure {
    let loss = [0.0, 5.0, 10.0, 20.0, 30.0];
    let measured = |factor: f64, bound: bool| {
        let mark = |(index, x): (usize, f64)| {
            let y = 4.0 * factor.powi(i32::try_from(index).expect("few"));
            let (half, lower_bound) = (0.6 * factor.powi(2), bound && index > 2);
            let interval = (!lower_bound).then_some([y - half, y + half]);
            Mark { x, y, interval, lower_bound }
        };
        loss.into_iter().enumerate().map(mark).collect::<Vec<_>>()
    };
    Figure {
        name: "example".into(),
        title: "Delivery of 100 kB over four lossy hops".into(),
        subtitle:
            "Mean time from the first SYN to the last octet, 30 runs, links of 300 kbit/s & 50 ms"
                .into(),
        x: Axis::linear("Loss on every link, each way", "%"),
        y: Axis::log("Delivery delay", "s"),
        series: vec![
            Series { name: "plain TCP".into(), ink: Ink::Tcp, marks: measured(4.0, true) },
            Series {
                name: "HBH, paper profile".into(),
                ink: Ink::Paper,
                marks: measured(1.4, false),
            },
            Series {
                name: "HBH, default profile".into(),
                ink: Ink::Default,
                marks: measured(1.1, false),
            },
            Series {
                name: "physical limit".into(),
                ink: Ink::Limit,
                marks: loss.into_iter().map(|x| Mark::exact(x, 3.6 / (1.0 - x / 100.0))).collect(),
            },
        ],
        note: "Plain TCP is stopped after 2000 s.".into(),
    }
}

#[test]
fn a_figure_says_all_it_has_to_say() {
    let svg = to_svg(&example());

    for text in [
        "Delivery of 100 kB",
        "300 kbit/s &amp; 50 ms",
        "Delivery delay [s]",
        "physical limit",
        "at least this",
    ] {
        assert!(svg.contains(text), "{text} is not in\n{svg}");
    }
    assert_eq!(svg, to_svg(&example()), "drawn twice, two pictures");
}

#[test]
fn everything_lies_on_the_paper() {
    let svg = to_svg(&example());
    let attributes = |name: &str| {
        let opening = format!(" {name}=\"");
        let numbers = svg
            .split(&opening[..])
            .skip(1)
            .filter_map(|rest| rest.split('"').next()?.parse::<f64>().ok());
        numbers.collect::<Vec<_>>()
    };

    for (names, end) in [(["x", "cx"], theme::WIDTH), (["y", "cy"], theme::HEIGHT)] {
        for place in names.into_iter().flat_map(attributes) {
            assert!((0.0..=end).contains(&place), "{place} is beyond {end}");
        }
    }
}

#[test]
fn a_png_has_text_without_any_font_installed() {
    let with_text = to_png(&to_svg(&example())).expect("a picture");
    let mut silent = example();
    silent.title.clear();
    let without = to_png(&to_svg(&silent)).expect("a picture");

    assert_eq!(&with_text[1..4], b"PNG");
    assert_ne!(with_text, without, "the title left no trace");
}

#[test]
fn an_empty_figure_is_drawn_too() {
    let empty = Figure { series: Vec::new(), ..example() };

    assert!(to_png(&to_svg(&empty)).is_ok());
}

#[test]
fn panels_lie_beside_and_below_each_other() {
    let sheet = panels_to_svg(&[example(), example(), example()]);

    assert!(sheet.contains(r#"viewBox="0 0 1520 960""#), "{}", &sheet[..200]);
    for place in [r#"<svg x="0" y="0" "#, r#"<svg x="760" y="0" "#, r#"<svg x="0" y="480" "#] {
        assert_eq!(sheet.matches(place).count(), 1, "{place}");
    }
    assert!(to_png(&sheet).is_ok());
    assert!(panels_to_svg(&[example()]).contains(r#"viewBox="0 0 760 480""#));
}
