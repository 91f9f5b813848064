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
set xrange [0:100]
set logscale y
set yrange [0.0192501:1.33955]
set ytics (0.02, 0.05, 0.1, 0.2, 0.5, 1)
plot 'loss.dat' index 0 using ($1+1):3 with lines linewidth 1 linecolor rgb '#9CCBE8' title 'training', \
     'loss.dat' index 1 using 1:2 with linespoints linewidth 2 pointtype 7 pointsize 0.6 linecolor rgb '#0072B2' title 'validation', \
     0.074 with lines linewidth 1.5 dashtype 3 linecolor rgb '#E69F00' title 'target'
