fn main() {
    let mut sum = simulation::Figures::default();
    let n: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let start = std::time::Instant::now();
    for seed in n..n + 200 {
        let plan = simulation::plan::Plan::draw(seed);
        let o = simulation::run(&plan, false);
        sum.add(&o.figures);
        if let Some(v) = o.violation { println!("{seed}: {v}"); }
    }
    println!("{sum}\n{:?}", start.elapsed());
}
