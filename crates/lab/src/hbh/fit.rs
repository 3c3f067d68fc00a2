//! Measures how well a line or a curve fits means.

/// A straight line through points, by least squares.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    foot: f64,
    slope: f64,
}

impl Line {
    pub fn through(x: &[f64], y: &[f64]) -> Self {
        let n = x.len() as f64;
        let (mean_x, mean_y) = (x.iter().sum::<f64>() / n, y.iter().sum::<f64>() / n);
        let products = x.iter().zip(y).map(|(x, y)| (x - mean_x) * (y - mean_y));
        let squares = x.iter().map(|x| (x - mean_x).powi(2));
        let slope = products.sum::<f64>() / squares.sum::<f64>();
        Self { foot: mean_y - slope * mean_x, slope }
    }

    pub fn at(self, x: f64) -> f64 {
        self.foot + self.slope * x
    }
}

/// How far, relative to `scale`, a straight line misses `y`.
pub fn misfit(x: &[f64], y: &[f64], scale: &[f64]) -> f64 {
    let line = Line::through(x, y);
    let fitted: Vec<f64> = x.iter().map(|x| line.at(*x)).collect();
    rms(scale, &fitted)
}

/// The relative deviation of `fitted` from `measured`, as root of the mean square.
pub fn rms(measured: &[f64], fitted: &[f64]) -> f64 {
    let squares = measured.iter().zip(fitted).map(|(m, f)| ((f - m) / m).powi(2));
    (squares.sum::<f64>() / measured.len() as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_exponentials_are_told_apart() {
        let x: [f64; 5] = [0.1, 0.15, 0.2, 0.25, 0.3];
        let straight = x.map(|x| 1000.0 + 3000.0 * x);
        let bent = x.map(|x| 100.0 * (15.0 * x).exp());

        assert!(misfit(&x, &straight, &straight) < 1e-9);
        assert!(misfit(&x, &bent, &bent) > 0.2);
    }
}
