"""Step 1: run a script on a cluster. The script does not use Determined; its output is the trial's log."""

from line import Line, points

STEPS = 200

if __name__ == "__main__":
    line, training = Line(), points(STEPS, seed=1)
    for step, (x, y) in enumerate(training, start=1):
        line.learn(x, y, learning_rate=0.1)
        if step % 50 == 0:
            print(f"step {step}: error {line.mean_error(points(100, seed=2)):.4f}")
