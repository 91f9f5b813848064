# Drawn by: gnuplot -d step_time.gp
set encoding utf8
set terminal svg size 960,400 dynamic noenhanced font 'Helvetica,Arial,sans-serif,14' background '#ffffff' name 'step_time'
set output 'step_time.svg'
set border 3 linecolor rgb '#444444'
set tics nomirror out textcolor rgb '#222222'
set grid ytics linecolor rgb '#dddddd' linewidth 1
set key outside right top Left reverse samplen 2 spacing 1.2
set xlabel 'optimizer step'
set ylabel 'step time (ms)'
set xrange [-0.5:63.5]
set yrange [0:*]
set object 1 rectangle from first -0.5, graph 0 to first 7.5, graph 1 fillcolor rgb '#e8e8e8' fillstyle solid noborder behind
plot 'step_time.dat' using 1:3 with linespoints linewidth 1 pointtype 7 pointsize 0.35 linecolor rgb '#0072B2' title 'each step', \
     NaN with filledcurves fillcolor rgb '#e8e8e8' fillstyle solid noborder title 'warm-up, left out', \
     [7.5:63.5] 950.348 with lines linewidth 2 dashtype 2 linecolor rgb '#E69F00' title 'median 950.35 ms'

# Drawn by: gnuplot -d loss.gp
set encoding utf8
set terminal svg size 960,400 dynamic noenhanced font 'Helvetica,Arial,sans-serif,14' background '#ffffff' name 'loss'
set output 'loss.svg'
set border 3 linecolor rgb '#444444'
set tics nomirror out textcolor rgb '#222222'
set grid ytics linecolor rgb '#dddddd' linewidth 1
set key outside right top Left reverse samplen 2 spacing 1.2
set xlabel 'optimizer steps done'
set ylabel 'loss'
set xrange [0:64]
set logscale y
set yrange [0.04:1.2625]
set ytics (0.05, 0.1, 0.2, 0.5, 1)
plot 'loss.dat' index 0 using ($1+1):3 with lines linewidth 1 linecolor rgb '#9CCBE8' title 'training', \
     'loss.dat' index 1 using 1:2 with linespoints linewidth 2 pointtype 7 pointsize 0.6 linecolor rgb '#0072B2' title 'validation', \
     'loss.dat' index 1 using 1:3 with lines linewidth 1.5 dashtype 2 linecolor rgb '#009E73' title 'Bayes-optimal', \
     0.1 with lines linewidth 1.5 dashtype 3 linecolor rgb '#E69F00' title 'target'

# Drawn by: gnuplot -d memory.gp
set encoding utf8
set terminal svg size 960,400 dynamic noenhanced font 'Helvetica,Arial,sans-serif,14' background '#ffffff' name 'memory'
set output 'memory.svg'
set border 3 linecolor rgb '#444444'
set tics nomirror out textcolor rgb '#222222'
set grid ytics linecolor rgb '#dddddd' linewidth 1
set key outside right top Left reverse samplen 2 spacing 1.2
set xlabel 'time since the step began (ms)'
set ylabel 'live bytes (MiB)'
set xrange [0:960]
set yrange [0:1588.68]
plot 'memory.dat' using 1:7:8 with filledcurves fillcolor rgb '#BBBBBB' fillstyle solid noborder title 'temporary', \
     'memory.dat' using 1:6:7 with filledcurves fillcolor rgb '#E69F00' fillstyle solid noborder title 'activations', \
     'memory.dat' using 1:5:6 with filledcurves fillcolor rgb '#DDCC77' fillstyle solid noborder title 'input', \
     'memory.dat' using 1:4:5 with filledcurves fillcolor rgb '#117733' fillstyle solid noborder title 'gradients', \
     'memory.dat' using 1:3:4 with filledcurves fillcolor rgb '#88CCEE' fillstyle solid noborder title 'ema', \
     'memory.dat' using 1:2:3 with filledcurves fillcolor rgb '#6699CC' fillstyle solid noborder title 'optimizer', \
     'memory.dat' using 1:(0):2 with filledcurves fillcolor rgb '#332288' fillstyle solid noborder title 'weights', \
     1471.0000 with lines linewidth 1.5 dashtype 2 linecolor rgb '#D55E00' title 'peak 1.44 GiB'

