//! The needlines between the routers of a brigade: 20 routers, up to 7 needlines apart.

use std::collections::VecDeque;

use base::rng::Rng;

/// How many routers there are.
pub const ROUTERS: usize = 20;
/// How many needlines are between the two that are farthest apart.
const DIAMETER: usize = 7;
/// How far a needline reaches where routers lie anywhere in a square with sides of 1.
const REACH: f64 = 0.3;

/// A command tree: two routers, two below each, two below each of those, and three more below those.
pub fn tree() -> Vec<[usize; 2]> {
    let mut needlines = vec![[0, 1]];
    let mut next = 2;
    for top in [0, 1] {
        let mut row = vec![top];
        for width in [2, 4, 3] {
            let each = if width == 3 { 1 } else { 2 };
            let above = row.iter().flat_map(|above| std::iter::repeat_n(*above, each));
            let pairs: Vec<[usize; 2]> = above.take(width).zip(next..).map(Into::into).collect();
            next += pairs.len();
            row = pairs.iter().map(|[_, below]| *below).collect();
            needlines.extend(pairs);
        }
    }
    needlines
}

/// Routers anywhere in a square, with needlines to all that are near: the first such net that is whole and has the
/// diameter.
pub fn scattered() -> Vec<[usize; 2]> {
    let nets = (0..).map(|number| {
        let mut rng = Rng::stream(number, "tactical scattered");
        let places: [[f64; 2]; ROUTERS] = std::array::from_fn(|_| [rng.uniform(), rng.uniform()]);
        let is_near = |[a, b]: &[usize; 2]| {
            let [x, y] = [0, 1].map(|axis| places[*a][axis] - places[*b][axis]);
            x.hypot(y) < REACH
        };
        let pairs = (0..ROUTERS).flat_map(|a| (a + 1..ROUTERS).map(move |b| [a, b]));
        pairs.filter(is_near).collect::<Vec<_>>()
    });
    let is_right = |net: &Vec<[usize; 2]>| diameter(net) == Some(DIAMETER);
    nets.take(100_000).find(is_right).unwrap_or_default()
}

/// The longest way in a net; `None` where there is no way between some.
fn diameter(needlines: &[[usize; 2]]) -> Option<usize> {
    let farthest = |from| distances(needlines, from).into_iter().max().flatten();
    let whole = |from| distances(needlines, from).iter().all(Option::is_some);
    (0..ROUTERS).all(whole).then(|| (0..ROUTERS).filter_map(farthest).max())?
}

/// How many needlines each router is away from one.
fn distances(needlines: &[[usize; 2]], from: usize) -> [Option<usize>; ROUTERS] {
    let mut away = [None; ROUTERS];
    away[from] = Some(0);
    let mut queue = VecDeque::from([(from, 0)]);
    while let Some((router, steps)) = queue.pop_front() {
        for [a, b] in needlines {
            for (here, there) in [(*a, *b), (*b, *a)] {
                if here == router && away[there].is_none() {
                    away[there] = Some(steps + 1);
                    queue.push_back((there, steps + 1));
                }
            }
        }
    }
    away
}

#[cfg(test)]
mod tests {
    use super::super::brigade;
    use super::*;

    #[test]
    fn all_nets_have_twenty_routers_up_to_seven_needlines_apart() {
        let grid = brigade::example().links.iter().map(|link| link.ends).collect();

        for needlines in [grid, tree(), scattered()] {
            assert_eq!(diameter(&needlines), Some(DIAMETER), "{needlines:?}");
        }
        assert_eq!((tree().len(), diameter(&tree()[1..])), (19, None));
    }
}
