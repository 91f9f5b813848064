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
set xrange [-0.5:15.5]
set yrange [0:*]
set object 1 rectangle from first -0.5, graph 0 to first 1.5, graph 1 fillcolor rgb '#e8e8e8' fillstyle solid noborder behind
plot 'step_time.dat' using 1:3 with linespoints linewidth 1 pointtype 7 pointsize 0.35 linecolor rgb '#0072B2' title 'each step', \
     NaN with filledcurves fillcolor rgb '#e8e8e8' fillstyle solid noborder title 'warm-up, left out', \
     [1.5:15.5] 13.1922 with lines linewidth 2 dashtype 2 linecolor rgb '#E69F00' title 'median 13.19 ms'
